package nightly

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// settling is how long a step waits for earlier ones of other daemons.
const settling = 200 * time.Millisecond

// A timeline prints the steps of all daemons in the order in which they
// happened. Adding steps never waits for their readers.
type timeline struct {
	out    *printer
	begin  time.Time
	past   history // of what is printed
	holder string  // the run that has the lock, as far as printed
	silent bool    // ZooKeeper is, as far as printed
	drains bool    // the daemons have been told to stop

	mu    sync.Mutex
	fresh []step

	pending []step
}

func newTimeline(out *printer) *timeline {
	return &timeline{out: out, past: newHistory()}
}

// add takes a step, from any goroutine.
func (t *timeline) add(s step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = append(t.fresh, s)
}

// follow prints steps until the daemons have ended, which they do after ctx, and
// after what they then allow the jobs.
func (t *timeline) follow(ctx context.Context, drain time.Duration, ended <-chan struct{}) {
	t.begin = time.Now()
	stopping := ctx.Done()
	ticker := time.NewTicker(settling / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			t.flush(time.Now().Add(time.Hour))
			return
		case <-stopping:
			stopping = nil
			t.flush(time.Now())
			note := fmt.Sprintf("The daemons stop: running jobs may go on for %s, then they are stopped.", seconds(drain))
			t.out.printf("\n  %s\n", t.out.paint(bold, note))
			t.drains = true
			t.excuse()
		case now := <-ticker.C:
			t.flush(now.Add(-settling))
		}
	}
}

// flush prints what happened before the given time.
func (t *timeline) flush(before time.Time) {
	t.mu.Lock()
	t.pending = append(t.pending, t.fresh...)
	t.fresh = nil
	t.mu.Unlock()

	slices.SortStableFunc(t.pending, func(a, b step) int { return a.At.Compare(b.At) })
	for len(t.pending) > 0 && t.pending[0].At.Before(before) {
		if t.pending[0].Kind == holding {
			t.finishHolder()
		}
		t.print(t.pending[0])
		t.pending = t.pending[1:]
	}
}

// finishHolder prints the end of the run that had the lock before. A release
// counts from when ZooKeeper has confirmed it, and the next holder may be the
// first to hear of that.
func (t *timeline) finishHolder() {
	end := slices.IndexFunc(t.pending, func(s step) bool { return s.Run == t.holder && s.Kind.ends() })
	if end < 0 {
		return
	}
	others := t.pending[:0:0]
	for i, s := range t.pending {
		if i <= end && s.Run == t.holder {
			t.print(s)
		} else {
			others = append(others, s)
		}
	}
	t.pending = others
}

func (t *timeline) print(s step) {
	if s.Kind == holding {
		t.holder = s.Run
	}
	if next := t.next(s); s.Kind == handedOver && next != "" {
		s.Text = "to " + next + ", " + s.Text
	}
	if s.Overlap {
		s.Text += ": it still runs"
		if t.past.waits(s.Job) {
			s.Text = strings.TrimSuffix(s.Text, "runs") + "waits"
		}
	}
	t.past.add(s)
	t.out.printf("%s\n", line(s, t.out.palette))
	if s.Kind == outage || s.Kind == answers {
		t.silent = s.Kind == outage
		t.excuse()
	}
}

// next returns the job that gets the lock when s releases it, "" when none here
// does: it may have gone to another process.
func (t *timeline) next(s step) string {
	for _, other := range t.pending {
		if other.Kind == holding && other.Run != s.Run && other.At.Sub(s.At) < settling {
			return other.Job
		}
	}
	return ""
}

// patience is how long the end may take when ZooKeeper is silent: what a job may
// still do, and what the guard, the scheduler and the client then wait for.
const patience = 15 * time.Second

// excuse says why the end takes so long.
func (t *timeline) excuse() {
	if t.drains && t.silent {
		note := fmt.Sprintf("Waiting for ZooKeeper (at most %s); Ctrl-C again ends at once.", seconds(patience))
		t.out.printf("  %s\n", t.out.paint(bold, note))
	}
}

// line writes a step.
func line(s step, paint palette) string {
	const indent = 40 // columns before the text
	look := s.Kind.look()
	text := fmt.Sprintf("  %s  %s  %-8s %s %s",
		s.At.Format("15:04:05.0"), s.Daemon, s.Job,
		paint.paint(look.style, fmt.Sprintf("%s %-11s", look.sign, s.Kind)),
		fold(s.Text, width-indent, indent))
	return strings.TrimRight(text, " ")
}
