package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// cluster is a tick ledger in memory, shared by several daemons.
type cluster struct {
	mu   sync.Mutex
	jobs map[string]*record
	ids  int

	server *atomic.Int64 // how far the clock of ZooKeeper's leader is ahead of the bubble's; nil: unknown
}

type record struct {
	last     time.Time
	running  []*holding
	waiting  []time.Time
	outcomes map[time.Time][]string // how each instant ended
	ends     []ticks.End
}

type holding struct {
	run    ticks.Run
	owner  *ledger
	cancel chan time.Time // gets the tick that wants to take the run's place
}

// settle records the runs of daemons that were killed, and returns those that
// live.
func (r *record) settle() (dead []ticks.Run) {
	r.running = slices.DeleteFunc(r.running, func(h *holding) bool {
		if h.owner.gone {
			r.end(h.run.Instant, "interrupted")
			dead = append(dead, h.run)
		}
		return h.owner.gone
	})
	return dead
}

func (r *record) end(instant time.Time, outcome string) {
	r.outcomes[instant] = append(r.outcomes[instant], outcome)
}

func newCluster() *cluster { return &cluster{jobs: map[string]*record{}} }

func (c *cluster) of(job string) *record {
	if c.jobs[job] == nil {
		c.jobs[job] = &record{outcomes: map[time.Time][]string{}}
	}
	return c.jobs[job]
}

// outcomes returns how the instants of a job ended.
func (c *cluster) outcomes(job string) map[time.Time][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of(job).outcomes)
}

// ledger is one daemon's way to the cluster.
type ledger struct {
	*cluster
	name string

	out  chan struct{} // closed when ZooKeeper answers
	gone bool          // the process was killed
	far  time.Duration // how long each request takes

	before func(ctx context.Context, job string) error // each request, if it is not nil
}

// down makes ZooKeeper silent until up.
func (l *ledger) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = make(chan struct{})
}

func (l *ledger) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.out)
}

// takes makes each request take d.
func (l *ledger) takes(d time.Duration) *ledger {
	l.far = d
	return l
}

func (l *ledger) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.out:
	default:
		close(l.out)
	}
}

// die is kill -9 and the end of the session.
func (l *ledger) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	l.out = make(chan struct{})
}

func (l *ledger) reach(ctx context.Context) error {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	time.Sleep(l.far)
	select {
	case <-out:
		return ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("ZooKeeper does not answer: %w", context.Cause(ctx))
	}
}

// ServerTime knows the leader's clock to 20ms.
func (l *ledger) ServerTime() (now zkclient.ServerTime, ok bool) {
	if l.server == nil {
		return now, false
	}
	at := time.Now().Add(time.Duration(l.server.Load())).Round(0)
	return zkclient.ServerTime{Earliest: at.Add(-10 * time.Millisecond), Latest: at.Add(10 * time.Millisecond)}, true
}

func (l *ledger) AwaitServerTime(ctx context.Context) error {
	if l.server == nil {
		return nil
	}
	return l.reach(ctx)
}

// due is the ledger's guard against clocks that are ahead.
func (l *ledger) due(job string, instant time.Time) error {
	now, ok := l.ServerTime()
	if by := instant.Sub(now.Earliest) - ticks.Tolerance; ok && by > 0 {
		return &ticks.EarlyError{Job: job, Instant: instant, By: by}
	}
	return nil
}

// at does something with the record of a job. latest is the latest instant that it is about; zero: none.
func (l *ledger) at(ctx context.Context, job string, latest time.Time, do func(r *record) error) error {
	if !latest.IsZero() {
		if err := l.due(job, latest); err != nil {
			return err
		}
	}
	if l.before != nil {
		if err := l.before(ctx, job); err != nil {
			return err
		}
	}
	if err := l.reach(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return do(l.of(job))
}

func (l *ledger) claim(
	ctx context.Context, job string, instant time.Time, do func(r *record) ticks.Claim,
) (claim ticks.Claim, err error) {
	err = l.at(ctx, job, instant, func(r *record) error {
		claim = do(r)
		claim.Waiting = len(r.waiting)
		return nil
	})
	return claim, err
}

func (l *ledger) Claim(ctx context.Context, job string, instant time.Time, ask ticks.Ask) (ticks.Claim, error) {
	return l.claim(ctx, job, instant, func(r *record) ticks.Claim {
		instant = instant.UTC()
		if !instant.After(r.last) {
			return ticks.Claim{Verdict: ticks.Taken, Last: r.last}
		}
		dead := r.settle()
		most := 1
		if ask.OnOverlap == ticks.AllowOverlap {
			most = ask.Max
		}
		if len(r.running) < most && len(r.waiting) == 0 {
			r.last = instant
			return l.claimed(r, ticks.Run{Job: job, Instant: instant}, dead)
		}
		claim := ticks.Claim{Verdict: ticks.Overlap}
		if len(r.running) > 0 {
			claim.Run = r.running[0].run
		}
		switch {
		case ask.OnOverlap == ticks.TellOverlap:
			return claim
		case ask.OnOverlap == ticks.BufferOverlap && len(r.waiting) < ask.Max:
			claim.Verdict = ticks.Buffered
			r.waiting = append(r.waiting, instant)
		case ask.OnOverlap == ticks.CancelOverlap:
			claim.Verdict = ticks.Buffered
			for _, at := range r.waiting {
				r.end(at, "overlap")
			}
			r.waiting = []time.Time{instant}
			for _, h := range r.running {
				select {
				case h.cancel <- instant:
				default:
				}
			}
		default:
			r.end(instant, "overlap")
		}
		r.last = instant
		return claim
	})
}

func (l *ledger) claimed(r *record, run ticks.Run, dead []ticks.Run) ticks.Claim {
	l.ids++
	run.ID = fmt.Sprint(l.ids)
	run.Owner = l.name
	r.running = append(r.running, &holding{run: run, owner: l, cancel: make(chan time.Time, 1)})
	return ticks.Claim{Verdict: ticks.Claimed, Run: run, Interrupted: dead}
}

func (l *ledger) ClaimWaiting(ctx context.Context, job string, most int) (ticks.Claim, error) {
	return l.claim(ctx, job, time.Time{}, func(r *record) ticks.Claim {
		dead := r.settle()
		switch {
		case len(r.waiting) == 0:
			return ticks.Claim{Verdict: ticks.Taken}
		case len(r.running) >= most:
			return ticks.Claim{Verdict: ticks.Overlap, Run: r.running[0].run}
		}
		instant := r.waiting[0]
		r.waiting = r.waiting[1:]
		return l.claimed(r, ticks.Run{Job: job, Instant: instant}, dead)
	})
}

func (l *ledger) ClaimManual(ctx context.Context, job string, at time.Time) (ticks.Claim, error) {
	return l.claim(ctx, job, time.Time{}, func(r *record) ticks.Claim {
		dead := r.settle()
		if len(r.running) > 0 {
			return ticks.Claim{Verdict: ticks.Overlap, Run: r.running[0].run}
		}
		return l.claimed(r, ticks.Run{Job: job, Instant: at.UTC(), Manual: true}, dead)
	})
}

// AwaitRequests has none: those are tested on the real ledger.
func (l *ledger) AwaitRequests(ctx context.Context, _ ticks.Requests) (ticks.Requests, error) {
	<-ctx.Done()
	return ticks.Requests{}, context.Cause(ctx)
}

func (l *ledger) ClaimRequest(context.Context, ticks.Request, int) (ticks.Claim, error) {
	panic("no request was made")
}

func (l *ledger) AwaitCancel(ctx context.Context, run ticks.Run) (by time.Time, err error) {
	l.mu.Lock()
	r := l.of(run.Job)
	i := slices.IndexFunc(r.running, func(h *holding) bool { return h.run.ID == run.ID })
	if i < 0 {
		l.mu.Unlock()
		return by, &ticks.InterruptedError{Job: run.Job, Instant: run.Instant}
	}
	cancel := r.running[i].cancel
	l.mu.Unlock()
	select {
	case by = <-cancel:
		return by, nil
	case <-ctx.Done():
		return by, context.Cause(ctx)
	}
}

func (l *ledger) Finish(ctx context.Context, run ticks.Run, end ticks.End) (finish ticks.Finish, err error) {
	err = l.at(ctx, run.Job, time.Time{}, func(r *record) error {
		i := slices.IndexFunc(r.running, func(h *holding) bool { return h.run.ID == run.ID })
		if i < 0 {
			return &ticks.InterruptedError{Job: run.Job, Instant: run.Instant}
		}
		r.running = slices.Delete(r.running, i, i+1)
		outcome := string(end.Outcome)
		if end.Outcome == ticks.Skipped {
			outcome = end.Reason
		}
		r.end(run.Instant, outcome)
		r.ends = append(r.ends, end)
		finish.Waiting = len(r.waiting)
		return nil
	})
	return finish, err
}

func (l *ledger) State(ctx context.Context, job string) (state ticks.State, err error) {
	err = l.at(ctx, job, time.Time{}, func(r *record) error {
		state = ticks.State{Job: job, Last: r.last, Waiting: slices.Clone(r.waiting)}
		return nil
	})
	return state, err
}

func (l *ledger) RecordMissed(ctx context.Context, job, reason string, span ticks.Span) (recorded bool, decided time.Time, err error) {
	err = l.at(ctx, job, span.Last, func(r *record) error {
		if recorded = span.First.After(r.last); recorded {
			r.last = span.Last.UTC()
			r.end(r.last, fmt.Sprintf("%s x%d", reason, span.Count))
		}
		decided = r.last
		return nil
	})
	return recorded, decided, err
}

func (l *ledger) Begin(ctx context.Context, job string, first time.Time) (last time.Time, err error) {
	err = l.at(ctx, job, first, func(r *record) error {
		if r.last.IsZero() {
			r.last = first.UTC().Add(-1)
		}
		last = r.last
		return nil
	})
	return last, err
}

func (l *ledger) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (n int, err error) {
	var latest time.Time
	if len(instants) > 0 {
		latest = instants[len(instants)-1]
	}
	err = l.at(ctx, job, latest, func(r *record) error {
		for _, instant := range instants {
			if instant = instant.UTC(); instant.After(r.last) {
				r.last = instant
				r.end(instant, reason)
				n++
			}
		}
		return nil
	})
	return n, err
}
