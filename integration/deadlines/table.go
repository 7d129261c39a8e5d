package deadlines

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is what samples have in common that stand in one row.
type row struct {
	setup   Setup
	fault   Fault
	session time.Duration
	margin  time.Duration
	late    bool
}

// Promise is the least gap: the margin, less what this process's timers were late.
func (s Sample) Promise() time.Duration { return s.margin() - s.Noise }

// Broken tells whether the sample breaks the promise.
func (s Sample) Broken() bool { return s.Err == nil && s.Gap() < s.Promise() }

// Unclear tells whether the gap is below the margin, but timers were so late that it says nothing.
func (s Sample) Unclear() bool {
	return s.Err == nil && s.Gap() < s.margin() && !s.Broken() && s.Noise > s.margin()/2
}

// Table renders samples as a table in markdown, one row for each configuration.
func Table(samples []Sample) string {
	groups := map[row][]Sample{}
	var rows []row
	for _, s := range samples {
		key := row{s.Setup, s.Fault, s.Session, s.Margin, s.Late}
		if groups[key] == nil {
			rows = append(rows, key)
		}
		groups[key] = append(groups[key], s)
	}
	var b strings.Builder
	b.WriteString("| servers | tick | syncLimit | fault | session | margin | late answer | n | told, " +
		"median (last) | granted, median (first) | gap, least | gap, median | two holders | below margin | noise | last " +
		"answer of a leader after the fault | new leader |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		b.WriteString(r.render(groups[r]))
	}
	return b.String()
}

func (r row) render(samples []Sample) string {
	var told, granted, gaps []time.Duration
	var two, below, failed int
	var noise, answers, leader time.Duration
	for _, s := range samples {
		if s.Err != nil {
			failed++
			continue
		}
		told, granted, gaps = append(told, s.Told), append(granted, s.Granted), append(gaps, s.Gap())
		noise, answers, leader = max(noise, s.Noise), max(answers, s.LastAnswer), max(leader, s.NewLeader)
		if s.Gap() < 0 {
			two++
		}
		if s.Broken() {
			below++
		}
	}
	servers := fmt.Sprint(r.setup.Voters)
	if r.setup.Observers > 0 {
		servers += fmt.Sprintf("+%d", r.setup.Observers)
	}
	margin := "default"
	if r.margin > 0 {
		margin = r.margin.String()
	}
	n := fmt.Sprint(len(gaps))
	if failed > 0 {
		n += fmt.Sprintf(" (%d failed)", failed)
	}
	cells := []string{
		servers, r.setup.Tick.String(), fmt.Sprint(r.setup.SyncLimit), string(r.fault), r.session.String(),
		margin, yes(r.late), n,
	}
	if len(gaps) == 0 {
		return "| " + strings.Join(cells, " | ") + " | | | | | | | | | |\n"
	}
	cells = append(cells,
		fmt.Sprintf("%s (%s)", seconds(median(told)), seconds(slices.Max(told))),
		fmt.Sprintf("%s (%s)", seconds(median(granted)), seconds(slices.Min(granted))),
		seconds(slices.Min(gaps)), seconds(median(gaps)), fmt.Sprint(two), fmt.Sprint(below),
		fmt.Sprintf("%d ms", noise.Milliseconds()), afterwards(answers), afterwards(leader))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// afterwards leaves out what did not happen after the fault.
func afterwards(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
