package zkclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Now returns about what the clock of the ZooKeeper servers shows: what they
// last said on one of the client's writes, and the time since by a clock of
// this process that never steps. Before the first contact, and as long as there
// is no root, it is the local clock. It never waits. A call has the servers
// asked, in the background and at most once a minute. A correction, as after a
// change of the leader, is the only thing that can set it back.
func (c *Client) Now() time.Time {
	now, stale := c.time.read()
	if stale {
		c.refreshTime()
	}
	return now
}

// Time is Now, once the servers' clock is known: it waits for them. It returns
// the cause of ctx when that ends first.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	_, err := Promptly(ctx, c, func() (struct{}, error) {
		return struct{}{}, c.Reading(ctx, func(s *Session) error { return c.PrimeTime(ctx, s) })
	}, nil)
	if err != nil {
		return time.Time{}, err
	}
	return c.Now(), nil
}

// ServerTime is what a client knows of the clock of ZooKeeper's leader at one
// moment: it shows something from Earliest to Latest.
type ServerTime struct{ Earliest, Latest time.Time }

// Ahead returns how far a clock that shows now is ahead of the leader's
// (positive) or behind it (negative), at least. Zero: they may be the same.
func (t ServerTime) Ahead(now time.Time) time.Duration {
	switch {
	case now.After(t.Latest):
		return now.Sub(t.Latest)
	case now.Before(t.Earliest):
		return now.Sub(t.Earliest)
	}
	return 0
}

// ServerTime is Now with its bounds; ok is false as long as the servers' clock is
// not known. It never waits.
func (c *Client) ServerTime() (now ServerTime, ok bool) {
	now, ok, stale := c.time.bounds()
	if stale {
		c.refreshTime()
	}
	return now, ok
}

// TimeTolerance is how well the leader's clock has to be known to be of use.
const TimeTolerance = time.Second

// AwaitServerTime waits until the servers' clock is known to the tolerance of
// ticks. Of a connection that is too slow for that it takes the best of a few
// answers. The error is an *AccessError for one who may not write in the root.
func (c *Client) AwaitServerTime(ctx context.Context) error {
	const tries = 3
	for range tries {
		_, err := Promptly(ctx, c, func() (struct{}, error) {
			return struct{}{}, c.Reading(ctx, func(s *Session) error {
				if now, known, _ := c.time.bounds(); known && now.Latest.Sub(now.Earliest) <= TimeTolerance {
					return nil
				}
				return c.askTime(ctx, s)
			})
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// A clusterTime is the time by the servers' clock.
type clusterTime struct {
	clock *clock

	mu     sync.Mutex
	known  bool
	doubt  bool          // another leader may have come
	at     Instant       // of what follows
	low    time.Duration // the servers' clock there, since the epoch: at least
	high   time.Duration // at most
	asking bool
	next   Instant // when the servers may be asked again
}

const (
	// timeStale is how old the last stamp may be until the servers are asked.
	timeStale = time.Minute
	// clockDrift is by how much two clocks may drift apart: a 2000th.
	clockDrift = 2000
)

func newClusterTime() clusterTime { return clusterTime{clock: newClock()} }

// read returns the time, and whether the servers should be asked.
func (t *clusterTime) read() (now time.Time, stale bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	here := t.clock.awake()
	if !t.known {
		return time.Now().UTC().Round(0), true
	}
	age := here.Sub(t.at)
	return time.Unix(0, 0).Add((t.low + t.high) / 2).Add(age).UTC(), t.doubt || age > timeStale
}

// bounds is read, with what the clocks may have drifted apart since the last stamp.
func (t *clusterTime) bounds() (now ServerTime, known, stale bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	age := t.clock.awake().Sub(t.at)
	slack := age / clockDrift
	epoch := time.Unix(0, 0).UTC()
	now = ServerTime{Earliest: epoch.Add(t.low + age - slack), Latest: epoch.Add(t.high + age + slack)}
	return now, t.known, !t.known || t.doubt || age > timeStale
}

// reconnected has the servers asked again soon: the clock of a new leader may
// differ, and connections end with the old one.
func (t *clusterTime) reconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubt = t.known
	t.next = 0
}

// learn takes note of a stamp: milliseconds of the servers' clock, between sent
// and replied. What is known already makes it more precise, unless the two
// contradict each other: then the new one counts.
func (t *clusterTime) learn(stamp int64, sent, replied Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Duration(stamp) * time.Millisecond
	low, high := at, at+time.Millisecond+replied.Sub(sent)
	if t.known {
		age := replied.Sub(t.at)
		slack := max(age, -age) / clockDrift
		if l, h := max(low, t.low+age-slack), min(high, t.high+age+slack); l <= h {
			low, high = l, h
		}
	}
	t.known, t.doubt, t.at, t.low, t.high = true, false, replied, low, high
}

// ask reports whether the caller is to ask the servers, and then to tell with
// hasAsked what became of it.
func (t *clusterTime) ask() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking || t.clock.now() < t.next {
		return false
	}
	t.asking = true
	return true
}

func (t *clusterTime) hasAsked(err error) {
	pause := timeStale
	if err != nil && !errors.Is(err, zk.ErrNoAuth) { // else it will not be any better
		pause = time.Second
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, t.next = false, t.clock.now().Add(pause)
}

// refreshTime asks the servers in the background, by a write below the root. A
// client that only reads does not create a missing tree.
func (c *Client) refreshTime() {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if c.IsClosing() || !s.Usable() || !c.time.ask() {
		return
	}
	c.backlog.Go(func() {
		_, err := s.Stat(c.closing, c.root)
		if err == nil {
			err = c.askTime(c.closing, s)
		}
		c.time.hasAsked(err)
	})
}

// askTime makes the client know the servers' clock.
func (c *Client) askTime(ctx context.Context, s *Session) error {
	c.server.reset()
	_, err := c.ServerNow(ctx, s)
	return err
}

// PrimeTime makes sure that the servers' clock is known. Who may not write in
// the root goes by the local clock.
func (c *Client) PrimeTime(ctx context.Context, s *Session) error {
	c.time.mu.Lock()
	known := c.time.known
	c.time.mu.Unlock()
	if known {
		return nil
	}
	if err := c.askTime(ctx, s); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return nil
}
