package peers

import (
	"math"
	"slices"
)

func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// A Ratio is how many times as fast ours was, of the same rounds.
type Ratio struct {
	Median, Min, Max float64
	Rounds           int
}

// A Line is one contestant's figures of one work on one site: medians over the rounds.
type Line struct {
	Site, Group, Work, Kind string
	Rate                    float64 // cycles per second
	P50, P99                float64 // µs for acquire and release
	CPU                     float64 // µs of processor for a cycle
	Counters                Counters
	Errors                  int
	FirstError              string
	Ours                    Ratio // our rate to this one's; no rounds: there is none
	Check                   *Check
}

// Lines returns the figures of the works in cycles, in the order in which they were measured; the product comes first.
func (r Run) Lines() []Line {
	var lines []Line
	for _, s := range Sites() {
		for _, w := range Works() {
			for _, kind := range w.Kinds {
				if l, ok := r.line(s, w, kind); ok {
					lines = append(lines, l)
				}
			}
		}
	}
	return lines
}

// besides returns the samples of a kind, and what the product did in the same rounds.
func (r Run) besides(s Site, w Work, kind string) (own []Sample, ours map[int]float64) {
	ours = map[int]float64{}
	for _, sample := range r.Samples {
		if sample.Site != s.Name || sample.Work != w.Name || sample.Group != w.Group {
			continue
		}
		if sample.Kind == Product {
			ours[sample.Round] = rate(sample)
		}
		if sample.Kind == kind {
			own = append(own, sample)
		}
	}
	return own, ours
}

func (r Run) line(s Site, w Work, kind string) (Line, bool) {
	own, ours := r.besides(s, w, kind)
	if len(own) == 0 {
		return Line{}, false
	}
	l := Line{Site: s.Name, Group: w.Group, Work: w.Name, Kind: kind}
	var rates, p50, p99, cpu, requests, writes, reads, bytes, ratios []float64
	for _, sample := range own {
		rates = append(rates, rate(sample))
		p50, p99 = append(p50, sample.P50Micros), append(p99, sample.P99Micros)
		if n := float64(sample.Cycles + sample.Late); n > 0 {
			each := sample.Counters.each(n)
			cpu = append(cpu, 1000*sample.CPUMillis/n)
			requests, writes = append(requests, each.Requests), append(writes, each.Writes)
			reads, bytes = append(reads, each.Reads), append(bytes, each.Bytes)
		}
		l.Errors += sample.Errors
		if l.FirstError == "" {
			l.FirstError = sample.FirstError
		}
		if product, ok := ours[sample.Round]; ok && kind != Product && rate(sample) > 0 {
			ratios = append(ratios, product/rate(sample))
		}
	}
	l.Rate, l.P50, l.P99, l.CPU = median(rates), median(p50), median(p99), median(cpu)
	l.Counters = Counters{median(requests), median(writes), median(reads), median(bytes)}
	if len(ratios) > 0 {
		l.Ours = Ratio{median(ratios), slices.Min(ratios), slices.Max(ratios), len(ratios)}
	}
	for _, c := range r.Checks {
		if c.Site == s.Name && c.Work == w.Name && c.Kind == kind {
			l.Check = &c
		}
	}
	return l, true
}

func rate(s Sample) float64 {
	if s.Seconds == 0 {
		return 0
	}
	return float64(s.Cycles) / s.Seconds
}
