package deadlines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Setup is how the servers of an ensemble are configured.
type Setup struct {
	Voters    int
	Observers int
	Tick      time.Duration
	// SyncLimit is ZooKeeper's syncLimit, in ticks. Defaults to 5.
	SyncLimit int
}

// longest is the longest session that servers grant here, whatever their tick.
const longest = time.Minute

// Bench is an ensemble on which one fault is measured after the other.
type Bench struct {
	setup    Setup
	ensemble *zkserver.Ensemble
	rounds   int
}

// Open starts the servers. It ends with Close.
func Open(ctx context.Context, s Setup) (*Bench, error) {
	if s.SyncLimit == 0 {
		s.SyncLimit = 5
	}
	e, err := zkserver.RunEnsemble(ctx,
		zkserver.WithMembers(s.Voters, s.Observers), zkserver.WithTick(s.Tick), zkserver.WithHeap(128),
		zkserver.WithSessionTimeouts(2*s.Tick, longest), zkserver.WithPeerLinks(), zkserver.WithStartTimeout(2*time.Minute),
		zkserver.WithSetting("syncLimit", strconv.Itoa(s.SyncLimit)))
	if err != nil {
		return nil, err
	}
	if err := e.WaitCommitting(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &Bench{setup: s, ensemble: e}, nil
}

// Close ends the servers.
func (b *Bench) Close() error { return b.ensemble.Close() }

// attempts is how often a round is repeated while the machine is too busy to measure.
const attempts = 3

// Run connects holders and waiters, injects the fault, and returns what became of each holder. The ensemble
// is whole again when it returns. A round that the machine was too busy for to tell whether a promise was
// kept is repeated, twice at most.
func (b *Bench) Run(ctx context.Context, f Fault, seed uint64, specs []Spec) ([]Sample, error) {
	specs, err := b.complete(specs)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		samples, err := b.once(ctx, f, seed, specs)
		if err != nil || !slices.ContainsFunc(samples, Sample.Unclear) || attempt == attempts {
			return samples, err
		}
	}
}

// complete turns ticks into durations, and leaves out what cannot be.
func (b *Bench) complete(specs []Spec) (possible []Spec, err error) {
	for _, spec := range specs {
		if spec.Session < 2*b.setup.Tick || spec.Session > longest {
			return nil, fmt.Errorf("a session of %s is not between two ticks of %s and %s", spec.Session, b.setup.Tick, longest)
		}
		if spec.Margin < 0 {
			ticks := -int(spec.Margin)
			spec.Margin = time.Duration(ticks) * b.setup.Tick
		}
		if spec.Late && spec.margin() > spec.Session*2/5 {
			continue // it would lose its lock to the late answer
		}
		possible = append(possible, spec)
	}
	if len(possible) == 0 {
		return nil, errors.New("no holders")
	}
	return possible, nil
}

func (b *Bench) once(ctx context.Context, f Fault, seed uint64, specs []Spec) ([]Sample, error) {
	b.rounds++
	r := &round{bench: b, root: fmt.Sprintf("/deadlines%d", b.rounds), rng: rand.New(rand.NewPCG(seed, 1))}
	var err error
	if r.target, err = newTarget(ctx, b.ensemble, f); err != nil {
		return nil, err
	}
	samples, err := r.run(ctx, specs)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	err = errors.Join(err, r.target.heal(ending, b.ensemble))
	r.close()
	return samples, err
}

// round is one fault, its holders and their waiters.
type round struct {
	bench   *Bench
	target  *target
	root    string
	rng     *rand.Rand
	holders []*holder
	others  []string // addresses
	clients sync.WaitGroup
	writing sync.WaitGroup // those that have not done their last write
}

func (r *round) run(ctx context.Context, specs []Spec) ([]Sample, error) {
	for _, s := range r.target.others {
		r.others = append(r.others, s.Addr())
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	lead := time.Duration(0)
	for i, spec := range specs {
		h, err := newHolder(r, i, spec)
		if err != nil {
			return nil, err
		}
		r.holders = append(r.holders, h)
		lead = max(lead, h.plan.connect)
	}
	faultAt := time.Now().Add(lead + 500*time.Millisecond)
	r.writing.Add(len(r.holders))
	for _, h := range r.holders {
		r.clients.Go(func() { h.run(ctx, faultAt) })
	}
	if err := wait(ctx, faultAt); err != nil {
		return nil, err
	}
	r.answered(ctx)
	noise := watchNoise()
	defer noise.stop()
	for _, h := range r.holders {
		h.way.refuse()
	}
	faultAt = time.Now()
	if err := r.target.inject(ctx); err != nil {
		return nil, err
	}
	leads := make(chan time.Time, 1)
	watching, stop := context.WithCancel(ctx)
	go func() { leads <- r.newLeader(watching) }()
	outcome := r.collect(ctx, faultAt)
	stop()
	lag := noise.stop()
	leader := <-leads
	for i := range outcome {
		outcome[i].Noise = lag
		if !leader.IsZero() {
			outcome[i].NewLeader = leader.Sub(faultAt)
		}
	}
	return outcome, nil
}

// answered returns when the last writes are answered, or are late.
func (r *round) answered(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	all := make(chan struct{})
	r.clients.Go(func() {
		r.writing.Wait()
		close(all)
	})
	select {
	case <-all:
	case <-ctx.Done():
	}
}

// prepare makes what all locks lie under, so that the holders do not do it at the same time.
func (r *round) prepare(ctx context.Context) error {
	c, err := lock.NewClient(lock.Config{Servers: r.others, Root: r.root, SessionTimeout: longest})
	if err != nil {
		return err
	}
	defer r.clients.Go(func() { end(c) })
	l, err := c.PriorityLock("first")
	if err != nil {
		return err
	}
	g, err := l.Acquire(ctx, lock.Request{})
	if err != nil {
		return err
	}
	return g.Release(ctx)
}

// newLeader returns when one of the servers that the waiters reach leads; the zero value when ctx ends before.
func (r *round) newLeader(ctx context.Context) time.Time {
	switch r.target.fault {
	case FollowerKilled, FollowerCutOff, FollowerStopped, ObserverKilled:
		return time.Time{}
	case LeaderKilled, FollowerAndLeaderKilled, LeaderDeposed, LeaderDeposedFast:
	}
	for ctx.Err() == nil {
		for _, s := range r.target.others {
			attempt, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			mode, err := s.Mode(attempt)
			cancel()
			if err == nil && mode == zkserver.Leader {
				return time.Now()
			}
		}
		_ = wait(ctx, time.Now().Add(20*time.Millisecond))
	}
	return time.Time{}
}

// collect waits until all holders were told and all waiters granted.
func (r *round) collect(ctx context.Context, faultAt time.Time) (samples []Sample) {
	limit := time.Duration(0)
	for _, h := range r.holders {
		limit = max(limit, 2*h.spec.Session)
	}
	limit += time.Duration(2*r.bench.setup.SyncLimit+10)*r.bench.setup.Tick + 20*time.Second
	ctx, cancel := context.WithDeadline(ctx, faultAt.Add(limit))
	defer cancel()
	for _, h := range r.holders {
		samples = append(samples, h.outcome(ctx, faultAt))
	}
	return samples
}

func (r *round) close() {
	for _, h := range r.holders {
		h.way.admit()
		h.leave()
	}
	r.clients.Wait()
	for _, h := range r.holders {
		_ = h.way.Close()
	}
}

func wait(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func end(c *lock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = c.Close(ctx)
}
