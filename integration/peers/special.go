package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// A Fail is one fail-over: how long after the holder's death the next one had the lock.
type Fail struct {
	Site, Kind string
	Round      int
	Took       time.Duration
}

// special measures what is more than cycles.
func (c *contest) special(ctx context.Context) error {
	if chosen(c.Options.Groups, GroupPreempt) {
		if err := c.preempt(ctx); err != nil {
			return err
		}
	}
	if c.place.site.Members > 1 || len(c.place.site.Options) > 0 {
		return nil // neither depends on the disk, and one server counts what each hand-over reads
	}
	if chosen(c.Options.Groups, GroupQueue) {
		if err := c.queues(ctx); err != nil {
			return err
		}
	}
	if chosen(c.Options.Groups, GroupFailover) {
		for round := range min(c.Options.Rounds, 3) {
			if err := c.failover(ctx, round); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// cleanup is how long a victim cleans up: time to prepare the hand-over.
const cleanup = 5 * time.Millisecond

// preempt measures preemption and forced takeover, which no peer has, in round trips of the same turn.
func (c *contest) preempt(ctx context.Context) error {
	const preemptions, takeovers = 100, 20
	for _, k := range c.who(c.place.site, GroupPreempt, []string{Product}) {
		crew, err := c.crew(k, 1)
		if err != nil {
			c.fail(GroupPreempt, k.Name, err)
			continue
		}
		for round := range c.Options.Rounds + 1 { // the first is not measured
			for _, turn := range []contestant.Turn{
				{
					Do: contestant.Preempt, Locks: []string{"preempted"}, Count: preemptions, WorkMicros: int(cleanup.Microseconds()),
				},
				{Do: contestant.Takeover, Locks: []string{"taken over"}, Count: takeovers},
			} {
				r, err := crew.play(ctx, 2*time.Minute, func(int) contestant.Turn { return turn })
				if err != nil {
					c.fail(turn.Do, k.Name, err)
					c.dismiss(crew)
					return ctx.Err()
				}
				if round > 0 {
					c.Samples = append(c.Samples, Sample{
						Site: c.place.site.Name, Group: GroupPreempt, Work: turn.Do, Kind: k.Name, Round: round, Result: r,
					})
				}
			}
		}
	}
	c.logf("%s, preemption and takeover", c.place.site.Name)
	return ctx.Err()
}

const (
	queueClients = 4 // that all waiters of a process share
	handovers    = 100
	queueWork    = time.Millisecond
	largeQueue   = 2000 // once is enough
)

// queues measures hand-overs while ever more wait.
func (c *contest) queues(ctx context.Context) error {
	for _, size := range c.Options.QueueSizes {
		work := fmt.Sprintf("%d waiters", size)
		kinds := c.who(c.place.site, work, []string{Product, "zklock", "curator-mutex"})
		rounds := min(c.Options.Rounds, 3)
		if size >= largeQueue {
			rounds = 1
		}
		failed := map[string]bool{}
		for round := range rounds {
			rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			for _, k := range kinds {
				if failed[k.Name] {
					continue
				}
				if err := c.queue(ctx, k, size, round, work); err != nil {
					c.fail(work, k.Name, err)
					failed[k.Name] = true
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
			}
		}
		c.logf("%s, %s", c.place.site.Name, work)
	}
	return nil
}

// queue lets a crew of its own wait, and hand on.
func (c *contest) queue(ctx context.Context, k Kind, size, round int, work string) (err error) {
	// Those who waited before are gone when their nodes are.
	if err := c.settle(ctx, 30*time.Second, func(n int) bool { return n == 0 }); err != nil {
		return fmt.Errorf("nodes of others are left: %w", err)
	}
	crew, err := recruit(c.tools.command(k), k, c.place.addresses[k.Family], c.Options.Session, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.close()) }()
	turn := contestant.Turn{Do: contestant.Cycles, Locks: []string{"before"}, Seconds: c.Options.WarmUp.Seconds()}
	if _, err := crew.play(ctx, c.Options.WarmUp+c.Options.Hang, func(int) contestant.Turn { return turn }); err != nil {
		return err
	}
	turn = contestant.Turn{Do: contestant.Queue, Clients: queueClients, WorkMicros: int(queueWork.Microseconds())}
	for range size + 1 { // one holds
		turn.Locks = append(turn.Locks, fmt.Sprintf("queue-%d", size))
	}
	start := time.Now()
	_, err = crew.play(ctx, c.Options.QueuePatience, func(int) contestant.Turn { return turn })
	if err == nil {
		err = c.settle(ctx, c.Options.QueuePatience-time.Since(start), func(n int) bool { return n == size+1 })
	}
	if err != nil {
		stand, _ := c.place.ephemerals(ctx) // the nodes of a process that was ended stay for a while
		return fmt.Errorf("more than it carries here: after %s %d of %d stood in the queue: %w",
			time.Since(start).Round(time.Second), stand, size+1, err)
	}
	joined := time.Since(start)
	if err := c.quiet(ctx, size); err != nil {
		return err
	}
	before, err := c.place.count(ctx, k.Family)
	if err != nil {
		return err
	}
	turn = contestant.Turn{Do: contestant.Pass, Count: min(handovers, size-1), Seconds: c.Options.QueuePatience.Seconds()}
	r, err := crew.play(ctx, c.Options.QueuePatience+c.Options.Hang, func(int) contestant.Turn { return turn })
	if err != nil {
		return err
	}
	after, err := c.place.count(ctx, k.Family)
	if err != nil {
		return err
	}
	r.Series = map[string]contestant.Spread{"joined": {P50Micros: float64(joined.Microseconds())}}
	c.Samples = append(c.Samples, Sample{
		Site: c.place.site.Name, Group: GroupQueue, Work: work, Kind: k.Name, Round: round, Result: r,
		Counters: after.minus(before),
	})
	return nil
}

// settle waits until the server has as many ephemeral nodes as it should.
func (c *contest) settle(ctx context.Context, patience time.Duration, enough func(int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return process.Poll(ctx, 50*time.Millisecond, func() error {
		n, err := c.place.ephemerals(ctx)
		if err == nil && !enough(n) {
			err = fmt.Errorf("there are %d ephemeral nodes", n)
		}
		return err
	})
}

// quiet waits until those who have joined look around no more: each watches something, and nearly nothing is
// asked for a while.
func (c *contest) quiet(ctx context.Context, waiters int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*c.Options.QueuePatience)
	defer cancel()
	last, watched := Counters{}, 0
	err := process.Poll(ctx, 300*time.Millisecond, func() error {
		now, err := c.place.count(ctx, ZooKeeper)
		if err != nil {
			return err
		}
		watches, err := c.place.watches(ctx)
		if err != nil {
			return err
		}
		before := watched
		watched = watches
		if watches < waiters || watches != before {
			return fmt.Errorf("%d of %d watch, or more", watches, waiters)
		}
		since := now.minus(last)
		last = now
		const pings, list = 60, 64 << 10 // of all who are connected, our own questions; of a list that takes its time
		if since.Requests > pings || since.Bytes > list {
			return fmt.Errorf("%.0f requests and %.0f KiB in 0.3 s", since.Requests, since.Bytes/1024)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("more than it carries here: they still look around after %s: %w", 2*c.Options.QueuePatience, err)
	}
	return nil
}

// failover kills a holder of each kind while another process waits.
func (c *contest) failover(ctx context.Context, round int) error {
	kinds := c.who(c.place.site, GroupFailover, []string{Product, "zklock", "curator-mutex", "kazoo", "etcd"})
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, k := range kinds { // all at once: it takes time, not processors
		all.Go(func() {
			took, err := c.succeed(ctx, k, round)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.fail(GroupFailover, k.Name, err)
				return
			}
			c.Fails = append(c.Fails, Fail{c.place.site.Name, k.Name, round, took})
		})
	}
	all.Wait()
	c.logf("%s, fail-over %d", c.place.site.Name, round+1)
	return ctx.Err()
}

func (c *contest) succeed(ctx context.Context, k Kind, round int) (took time.Duration, err error) {
	crews := make([]*crew, 2)
	lock := []string{fmt.Sprintf("left-%d", round)}
	for i := range crews {
		crews[i], err = recruit(c.tools.command(k), k, c.place.addresses[k.Family], c.Options.FailoverSession, 1)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, crews[i].close()) }()
	}
	victim, heir := crews[0], crews[1]
	turn := func(do string) func(int) contestant.Turn {
		return func(int) contestant.Turn { return contestant.Turn{Do: do, Locks: lock} }
	}
	// Both have their sessions, and have done all this before.
	for _, crew := range []*crew{heir, victim} {
		if _, err := crew.play(ctx, c.Options.Hang, turn(contestant.Acquire)); err != nil {
			return 0, err
		}
	}
	if _, err := victim.play(ctx, c.Options.Hang, turn(contestant.Hold)); err != nil {
		return 0, err
	}
	var inherited time.Time
	waited := make(chan error, 1)
	go func() {
		_, err := heir.play(ctx, 10*c.Options.FailoverSession+c.Options.Hang, turn(contestant.Acquire))
		inherited = time.Now()
		waited <- err
	}()
	// It stands in the queue after a few round trips.
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-waited:
		return 0, errors.Join(errors.New("the lock was free while it was held"), err)
	}
	died := time.Now()
	if err := victim.kill(); err != nil {
		return 0, err
	}
	err = <-waited
	return inherited.Sub(died), err
}
