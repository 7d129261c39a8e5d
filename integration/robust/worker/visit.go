package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/resource"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A visit is one request, from the call to its end.
type visit struct {
	w      *worker
	wish   wish
	who    string
	scope  string
	shared bool // it only reads
	file   resource.File
	rand   *rand.Rand

	hold  hold
	token int64
	ctx   context.Context // of the work, when it is guarded
	asked chan time.Time  // ends of graces
	lost  chan struct{}   // closed when that is written down
	risk  chan struct{}   // ZooKeeper is silent
}

// hold is what both packages offer.
type hold interface {
	Downgrade(ctx context.Context) error
	Extend(ctx context.Context, lease time.Duration) error
}

func (v *visit) tell(e history.Event) {
	e.Who, e.Scope = v.who, v.scope
	v.w.tell(e)
}

func (v *visit) askedToGo(at time.Duration, by, reason string, grace time.Duration, deadline time.Time) {
	v.tell(history.Event{
		At: at, Kind: history.Asked, By: by, Reason: reason,
		Deadline: at + time.Until(deadline), From: at - grace, // From: not before
	})
	select {
	case v.asked <- deadline:
	default:
	}
}

func (v *visit) atRisk() {
	select {
	case v.risk <- struct{}{}:
	default:
	}
}

func (v *visit) tookOver(at time.Duration, from []lock.Contender) {
	e := history.Event{At: at, Kind: history.Took}
	for _, c := range from {
		e.Of = append(e.Of, c.Owner)
		e.Tokens = append(e.Tokens, int64(c.Token))
	}
	v.tell(e)
}

// extension is the lease that is asked for on the way.
const extension = 5 * time.Second

// work uses the resource, again and again, until it is done, has been
// preempted, or has lost the lock.
func (v *visit) work(lost <-chan struct{}) {
	v.use(false) // the previous holder is fenced off from here on
	end := time.NewTimer(v.wish.stay)
	defer end.Stop()
	soften := v.wish.soften
	for {
		if v.wish.extend {
			v.wish.extend = false
			v.tell(history.Event{Kind: history.Extending, Deadline: history.Now() + extension})
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = v.hold.Extend(ctx, extension)
			cancel()
		}
		if soften {
			soften = false
			v.downgrade()
		}
		step := time.NewTimer(time.Duration(v.rand.Int64N(int64(15 * time.Millisecond))))
		select {
		case <-lost:
			step.Stop()
			v.use(true)
			return
		case <-end.C:
			step.Stop()
			v.use(false)
			return
		case deadline := <-v.asked:
			if v.ctx != nil && v.ctx.Err() == nil {
				v.tell(history.Event{Kind: history.Cannot, Err: "preempted, and the context of the work goes on"})
			}
			switch v.wish.manner {
			case prompt:
				end.Reset(0)
			case punctual:
				end.Reset(max(0, time.Until(deadline)+time.Duration(v.rand.Int64N(int64(15*time.Millisecond)))-3*time.Millisecond))
			default: // stays
			}
			step.Stop()
		case <-v.risk:
			if v.wish.clings {
				end.Reset(2 * v.w.settings.Session)
			}
			step.Stop()
		case <-step.C:
			v.use(false)
		}
	}
}

func (v *visit) downgrade() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	v.shared = true // whether it works or not
	v.tell(history.Event{Kind: history.Downgrading})
	err := v.hold.Downgrade(ctx)
	v.tell(history.Event{Kind: history.Downgraded, Err: text(err)})
}

// haunt writes on although the lock was lost: the resource has to know better.
func (v *visit) haunt(err error) {
	if lost := new(lock.LostError); v.shared || !errors.As(err, &lost) {
		return
	}
	for range 3 {
		v.use(true)
		v.w.pause(time.Duration(v.rand.Int64N(int64(60 * time.Millisecond))))
	}
}

// use writes to what the lock protects, or reads it.
func (v *visit) use(late bool) {
	from := history.Now()
	if v.shared {
		if s, err := v.file.Read(v.token); err != nil {
			v.tell(history.Event{Kind: history.Cannot, Err: text(err)})
		} else if !late {
			v.tell(history.Event{Kind: history.Read, From: from, Count: s.Count, Token: s.Token})
		}
		return
	}
	s, err := v.file.Write(v.token)
	switch {
	case err == nil:
		v.tell(history.Event{Kind: history.Wrote, From: from, Token: v.token, Count: s.Count, Late: late})
	case errors.Is(err, resource.ErrStale):
		v.tell(history.Event{Kind: history.Refused, From: from, Token: v.token, Count: s.Count, Late: late})
	default:
		v.tell(history.Event{Kind: history.Cannot, Err: text(err)})
	}
}
