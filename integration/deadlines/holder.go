package deadlines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Spec is what a holder is configured with.
type Spec struct {
	Session time.Duration
	Margin  time.Duration // Config.Margin; 0 is the default
	Late    bool          // an earlier answer is held back, for three tenths of the session
	Written bool          // a write of the holder is answered right before the fault
}

// Specs returns specs: each session with each margin, n of each kind. A margin of 0 is the default, and a
// negative one a number of ticks.
func Specs(sessions, margins []time.Duration, n int) (specs []Spec) {
	for _, session := range sessions {
		for _, margin := range margins {
			for _, late := range []bool{false, true} {
				for i := range n {
					specs = append(specs, Spec{Session: session, Margin: margin, Late: late, Written: i%2 == 0})
				}
			}
		}
	}
	return specs
}

// margin is what Config.Margin means.
func (s Spec) margin() time.Duration {
	if s.Margin == 0 {
		return lock.Config{}.MarginOf(s.Session)
	}
	return s.Margin
}

// Sample is what became of one holder. Times count from the fault.
type Sample struct {
	Setup
	Spec
	Fault Fault
	// LastAnswer is when the last request that takes the leader was answered, before the fault or after it.
	LastAnswer time.Duration
	// NewLeader is when a server that the waiters reach was first seen to lead; 0 for faults that leave the leader alone.
	NewLeader     time.Duration
	Told, Granted time.Duration
	Noise         time.Duration // how late timers were in this process meanwhile, at most
	Err           error         // the sample counts for nothing
}

// Gap is the time from the notice to the next grant. It is negative for two holders.
func (s Sample) Gap() time.Duration { return s.Granted - s.Told }

// plan says when a holder does what, counted back from the fault.
type plan struct {
	connect time.Duration // its client connects
	enter   time.Duration // it acquires the lock, if it is connected by then
	hold    time.Duration // answers that take the leader are held back from then on; 0: never
	release time.Duration // and until then
	write   time.Duration // it writes, which is the last that is answered; 0: never
}

// planFor draws a plan.
//
// A client asks the leader all the time, and a follower reports every half tick, at instants of its own: what counts
// is how the fault falls between the two, so the client connects at random. An answered write puts the deadline as
// late as it can be when it is the last that happens before the fault. A late answer puts the next heartbeat off.
func planFor(s Spec, tick time.Duration, rng *rand.Rand) plan {
	draw := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most) + 1)) }
	p := plan{connect: s.Session + draw(s.Session/3) + 3*time.Second}
	p.enter = p.connect
	before := draw(2 * tick) // from the last answer that comes late to the fault
	if s.Written {
		p.write = draw(min(s.Session/128, tick/8))
		before = p.write
	}
	if s.Late {
		p.release = before + s.Session/32
		p.hold = p.release + s.Session*3/10
	}
	return p
}

// holder is one session with a lock, and its waiter.
type holder struct {
	round *round
	spec  Spec
	plan  plan
	way   *way
	scope string

	leaving chan struct{}
	ready   chan error     // the holder holds and the waiter waits; or why not
	told    chan time.Time // the Lost notice
	granted chan time.Time // the waiter's grant
}

func newHolder(r *round, i int, spec Spec) (*holder, error) {
	way, err := newWay(r.target.holds[i%len(r.target.holds)].Addr())
	if err != nil {
		return nil, err
	}
	return &holder{
		round: r, spec: spec, plan: planFor(spec, r.bench.setup.Tick, r.rng), way: way, scope: fmt.Sprintf("lock%d", i),
		leaving: make(chan struct{}), ready: make(chan error, 1), told: make(chan time.Time, 1),
		granted: make(chan time.Time, 1),
	}, nil
}

// run follows the plan, and returns when the holder may leave.
func (h *holder) run(ctx context.Context, faultAt time.Time) {
	wrote := sync.OnceFunc(h.round.writing.Done)
	defer wrote()
	if err := wait(ctx, faultAt.Add(-h.plan.connect)); err != nil {
		h.ready <- err
		return
	}
	c, err := lock.NewClient(lock.Config{
		Servers: []string{h.way.Addr()}, Root: h.round.root, SessionTimeout: h.spec.Session, Margin: h.spec.Margin,
	})
	if err != nil {
		h.ready <- err
		return
	}
	defer end(c)
	w, err := lock.NewClient(lock.Config{Servers: h.round.others, Root: h.round.root, SessionTimeout: longest})
	if err != nil {
		h.ready <- err
		return
	}
	defer end(w)
	if err := wait(ctx, faultAt.Add(-h.plan.enter)); err != nil {
		h.ready <- err
		return
	}
	grant, waits, err := h.enter(ctx, c, w)
	h.ready <- err
	if err != nil {
		return
	}
	if h.plan.hold > 0 && wait(ctx, faultAt.Add(-h.plan.hold)) == nil {
		late := h.way.On(throughLeader).HoldReply()
		_ = wait(ctx, faultAt.Add(-h.plan.release))
		late.Release()
	}
	if h.plan.write > 0 && wait(ctx, faultAt.Add(-h.plan.write)) == nil {
		_ = grant.Extend(ctx, time.Hour)
	}
	wrote()
	select {
	case <-h.leaving:
	case <-ctx.Done():
	}
	waits()
}

// enter acquires the lock, and returns when the waiter stands in the queue. The function ends the waiter.
func (h *holder) enter(ctx context.Context, c, w *lock.Client) (*lock.Grant, func(), error) {
	l, err := c.PriorityLock(h.scope)
	if err != nil {
		return nil, nil, err
	}
	next, err := w.PriorityLock(h.scope)
	if err != nil {
		return nil, nil, err
	}
	grant, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{
		Owner: "holder",
	}, Terms: priority.Terms{LeaseTimeout: time.Hour}, Notify: func(n lock.Notice) {
		if _, lost := n.(lock.Lost); lost {
			h.told <- time.Now()
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	if got := c.SessionTimeout(); got != h.spec.Session {
		return nil, nil, fmt.Errorf("the server granted a session of %s in place of %s", got, h.spec.Session)
	}
	waiting, cancel := context.WithCancel(ctx)
	queued, done := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(done)
		g, err := next.Acquire(waiting, lock.Request{Identity: priority.Identity{
			Owner: "waiter",
		}, Terms: priority.Terms{LeaseTimeout: time.Hour}, Notify: func(n lock.Notice) {
			if _, is := n.(lock.Queued); is {
				queued <- struct{}{}
			}
		}})
		if err != nil {
			return
		}
		h.granted <- time.Now()
		_ = g.Release(context.WithoutCancel(ctx))
	}()
	leave := func() { cancel(); <-done }
	select {
	case <-queued:
		return grant, leave, nil
	case <-done:
		leave()
		return nil, nil, errors.New("the waiter does not wait")
	}
}

func (h *holder) leave() { close(h.leaving) }

// outcome waits until the holder was told and the waiter granted.
func (h *holder) outcome(ctx context.Context, faultAt time.Time) Sample {
	s := Sample{Setup: h.round.bench.setup, Spec: h.spec, Fault: h.round.target.fault}
	select {
	case s.Err = <-h.ready:
	default:
		s.Err = errors.New("the waiter was not in the queue before the fault")
	}
	if s.Err != nil {
		return s
	}
	var told, granted time.Time
	select {
	case granted = <-h.granted:
	case <-ctx.Done():
		s.Err = errors.New("the waiter was not granted")
		return s
	}
	select {
	case told = <-h.told:
	case <-ctx.Done():
		told = time.Now() // at the earliest: two holders all the time
	}
	s.Told, s.Granted = told.Sub(faultAt), granted.Sub(faultAt)
	s.LastAnswer = h.way.lastAnswer().Sub(faultAt)
	if s.Told < 0 {
		s.Err = errors.New("the holder was told before the fault")
	}
	return s
}
