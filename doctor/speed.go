package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// What is slow, and what is too slow.
const (
	slowServer  = 50 * time.Millisecond // on the average of all requests
	slowWrite   = 100 * time.Millisecond
	slowRead    = 50 * time.Millisecond
	manyWaiting = 10
	fullQueue   = 500
)

// checkLatency is about what the servers say of all their clients' requests.
func checkLatency(f *findings, x *facts, _ Options) {
	for _, s := range x.servers {
		average, ok := s.figures.number("avg_latency")
		if !ok || !s.up() {
			continue
		}
		lowest, _ := s.figures.number("min_latency")
		highest, _ := s.figures.number("max_latency")
		found := fmt.Sprintf("min/avg/max %.0f/%.1f/%.0f ms over all clients since its start", lowest, average, highest)
		longest := milliseconds(highest)
		switch {
		case milliseconds(average) >= slowServer:
			f.warn(s.address, found,
				"give its transaction log a disk of its own (dataLogDir), and look at garbage collection and swapping")
		case s.timeout > 0 && longest > s.timeout/3:
			f.warn(s.address,
				found+fmt.Sprintf(": one took more than a third of the session timeout (%s)", words.Duration(s.timeout)),
				"if that goes on (srst resets the figures), look at its disk, garbage collection and swapping")
		default:
			f.ok(s.address, found)
		}
	}
}

func milliseconds(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// checkRoundTrips is about our own requests.
func checkRoundTrips(f *findings, x *facts, o Options) {
	for _, s := range x.servers {
		if !s.up() || len(s.sync) == 0 {
			continue
		}
		parts := []string{"sync " + s.sync.words(), "read " + s.read.words()}
		if len(s.write) > 0 {
			parts = append(parts, "write "+s.write.words())
		}
		found := strings.Join(parts, ", ") + " (p50/p99)"
		slowest := max(s.sync.percentile(99), s.write.percentile(99))
		switch {
		case s.timeout > 0 && slowest > s.timeout/4:
			f.problem(s.address, found+fmt.Sprintf(": sessions of %s are at risk", words.Duration(s.timeout)),
				"lengthen the session timeout until the cause is found: disk, network, garbage collection")
		case slowest > slowWrite, s.read.percentile(99) > slowRead:
			f.warn(s.address, found, "each lock costs two writes: look at the disk of the servers' transaction log, "+
				"and at the network; lockkeeper bench tells more")
		default:
			f.ok(s.address, found)
		}
		if s.readOnly != nil {
			f.skip(s.address, fmt.Sprintf("no write was possible: %v", s.readOnly), "see access")
		}
	}
	if o.ReadOnly && x.answers() {
		f.skip("", "writes were not measured, as was asked for", "")
	}
}

func (t times) words() string {
	return short(t.percentile(50)) + "/" + short(t.percentile(99))
}

// short writes a time in milliseconds, with as many digits as tell something.
func short(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return words.Duration(d.Round(time.Second))
}

// checkLoad is about what waits inside the servers.
func checkLoad(f *findings, x *facts, _ Options) {
	for _, s := range x.servers {
		waiting, ok := s.figures.number("outstanding_requests")
		if !ok || !s.up() {
			continue
		}
		found := fmt.Sprintf("%.0f requests wait inside", waiting)
		switch {
		case waiting >= fullQueue:
			f.problem(s.address, found+": it does not keep up",
				"see which client asks so much (cons), and what the server waits for: disk, processor")
		case waiting >= manyWaiting:
			f.warn(s.address, found, "run the doctor again; if it stays, see which client asks so much (cons)")
		default:
			f.ok(s.address, found)
		}
		if slow, ok := s.figures.number("fsync_threshold_exceed_count"); ok && slow > 0 {
			f.warn(s.address, fmt.Sprintf("its log took over a second to reach the disk, %.0f times since its start", slow),
				"give the transaction log a disk of its own (dataLogDir), of a kind that others do not write to")
		}
		open, _ := s.figures.number("open_file_descriptor_count")
		limit, ok := s.figures.number("max_file_descriptor_count")
		if ok && limit > 0 && open > limit*0.8 {
			f.warn(s.address, fmt.Sprintf("has %.0f of %.0f files open: soon it accepts no more clients", open, limit),
				"raise its limit (LimitNOFILE=), or see which client opens so many connections (cons)")
		}
	}
}
