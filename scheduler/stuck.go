package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A stuckWatch sees whether work returns after its context has ended.
type stuckWatch struct {
	run    *run
	unwait func() bool
	stop   context.CancelFunc

	mu    sync.Mutex
	over  bool
	told  bool
	timer *time.Timer
}

// watchForStuck watches work under ctx until end is called.
func (r *run) watchForStuck(ctx context.Context) *stuckWatch {
	w := &stuckWatch{run: r, stop: func() {}}
	if limit := r.def.Timeout; limit > 0 { // the work's own context ends with it
		ctx, w.stop = context.WithTimeoutCause(ctx, limit, &jobs.TimeoutError{Job: r.def.Name, Timeout: limit})
	}
	w.unwait = context.AfterFunc(ctx, func() { w.arm(context.Cause(ctx)) })
	return w
}

// arm gives the work the grace that it was promised, and some time.
func (w *stuckWatch) arm(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	ended := time.Now()
	limit := max(0, time.Until(priority.PreemptionOf(cause).Deadline)) + w.run.def.StuckAfter
	w.timer = time.AfterFunc(limit, func() { w.tell(cause, ended) })
}

func (w *stuckWatch) tell(cause error, ended time.Time) {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.told = true
	w.mu.Unlock()
	r := w.run
	l := r.lane
	l.count(func(s *JobStats) { s.Stuck++; s.StuckNow++ })
	about := lockguard.Subject{ID: r.tick.ID, Identity: priority.Identity{Owner: r.def.Name}}
	stuck := lockguard.Stuck{
		Job: r.def.Name, Cause: cause, For: time.Since(ended), Stack: jobs.StackOf(r.tick.ID),
	}
	if !r.tick.Manual {
		stuck.Instant = r.tick.Instant
	}
	if len(r.def.Requirements) > 0 {
		b := r.def.blamed(cause)
		about.Scope, about.Owner, about.Message, about.Mode, about.Priority = b.Scope, b.Owner, b.Message, b.Mode, b.Priority
	}
	l.s.log.Error("work goes on although its context has ended", "job", r.def.Name, "run", r.tick.ID,
		"cause", cause, "for", stuck.For.Round(time.Millisecond), "stack", stuck.Stack)
	if l.s.cfg.Guard != nil {
		l.s.cfg.Guard.Observe(context.Background(), lockguard.Event{Subject: about, Notice: stuck})
	}
}

// end is called when the work has returned.
func (w *stuckWatch) end() {
	w.unwait()
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.told {
		w.run.lane.count(func(s *JobStats) { s.StuckNow-- })
		w.run.lane.s.log.Warn("work that was stuck has returned", "job", w.run.def.Name, "run", w.run.tick.ID)
	}
}
