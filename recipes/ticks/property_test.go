package ticks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// crowd is some daemons that decide the ticks of one job, and what they did.
type crowd struct {
	rt      *rapid.T
	ctx     context.Context
	server  *tickServer
	ask     Ask
	daemons []*tickDaemon
	started []int // instants, in the order in which they began
}

// tickDaemon decides the instants in order: the next one only when this one is
// decided.
type tickDaemon struct {
	ledger  *Ledger
	session *tickSession
	next    int
	runs    []Run           // whose end is not recorded, as far as it knows
	working map[string]bool // of these: those that do, under the session that claimed them
	safe    map[string]bool // those whose session lives
}

func newCrowd(ctx context.Context, rt *rapid.T, ask Ask) *crowd {
	c := &crowd{rt: rt, ctx: ctx, server: newTickServer(), ask: ask}
	for i := range rapid.IntRange(2, 3).Draw(rt, "daemons") {
		c.daemons = append(c.daemons, &tickDaemon{})
		c.boot(i)
	}
	return c
}

// boot makes a daemon anew: what it ran is gone with its session.
func (c *crowd) boot(i int) {
	d := c.daemons[i]
	if d.session != nil {
		c.server.expire(d.session)
	}
	*d = tickDaemon{working: map[string]bool{}, safe: map[string]bool{}}
	d.ledger, d.session = c.server.ledger(fmt.Sprint(i))
	after, err := d.ledger.Begin(c.ctx, "job", at(0))
	require.NoError(c.rt, err)
	d.next = int(after.Add(time.Second).Truncate(time.Second).Sub(at(0)) / time.Second)
}

// call makes a request that may meet a fault, and fail.
func (c *crowd) call(d *tickDaemon, f func(ctx context.Context) error) error {
	if rapid.IntRange(0, 2).Draw(c.rt, "faulty") == 0 {
		d.session.next(0, rapid.SampledFrom([]fault{lostBefore, lostAfter, down, late}).Draw(c.rt, "fault"))
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	d.session.giveUp = cancel
	err := f(ctx)
	d.session.fault = nil
	return err
}

func (c *crowd) began(d *tickDaemon, run Run) {
	c.started = append(c.started, int(run.Instant.Sub(at(0))/time.Second))
	d.runs = append(d.runs, run)
	d.working[run.ID], d.safe[run.ID] = true, true
}

func (c *crowd) claim(d *tickDaemon) {
	var claim Claim
	err := c.call(d, func(ctx context.Context) (err error) {
		claim, err = d.ledger.Claim(ctx, "job", at(d.next), c.ask)
		return err
	})
	if err != nil {
		if rapid.Bool().Draw(c.rt, "give up") {
			n, err := d.ledger.RecordSkip(c.ctx, "job", ReasonUndecided, at(d.next))
			require.NoError(c.rt, err)
			require.LessOrEqual(c.rt, n, 1)
			d.next++
		}
		return
	}
	switch claim.Verdict {
	case Claimed:
		require.Equal(c.rt, at(d.next), claim.Run.Instant)
		c.began(d, claim.Run)
	case Overlap:
		if c.ask.OnOverlap == TellOverlap {
			return
		}
	case Taken, Buffered, Paused, LeftOut:
	}
	d.next++
}

func (c *crowd) claimWaiting(d *tickDaemon) {
	limit := 1
	if c.ask.OnOverlap == AllowOverlap {
		limit = c.ask.Max
	}
	var claim Claim
	err := c.call(d, func(ctx context.Context) (err error) {
		claim, err = d.ledger.ClaimWaiting(ctx, "job", limit)
		return err
	})
	if err == nil && claim.Verdict == Claimed {
		c.began(d, claim.Run)
	}
}

func (c *crowd) finish(d *tickDaemon) {
	if len(d.runs) == 0 {
		return
	}
	i := rapid.IntRange(0, len(d.runs)-1).Draw(c.rt, "run")
	outcome := rapid.SampledFrom([]Outcome{Ran, Failed, Preempted, Lost, Skipped}).Draw(c.rt, "outcome")
	run := d.runs[i]
	delete(d.working, run.ID)
	err := c.call(d, func(ctx context.Context) error {
		return finish(ctx, d.ledger, run, End{Outcome: outcome, Reason: "lock"})
	})
	interrupted := errors.As(err, new(*InterruptedError))
	if err != nil && !interrupted {
		return // to be repeated
	}
	if d.safe[run.ID] {
		require.False(c.rt, interrupted, "the session of %s lives", run.ID)
	}
	d.runs = slices.Delete(d.runs, i, i+1)
	delete(d.safe, run.ID)
}

func (c *crowd) expire(d *tickDaemon) {
	c.server.expire(d.session)
	clear(d.working)
	clear(d.safe)
}

// check is what holds at all times.
func (c *crowd) check() {
	reader, _ := c.server.ledger("reader")
	s, err := reader.State(c.ctx, "job")
	require.NoError(c.rt, err)

	// Each instant has exactly one place.
	decided := 0
	if !s.Last.IsZero() {
		decided = int(s.Last.Sub(at(0))/time.Second) + 1
	}
	require.EqualValues(c.rt, decided, s.Counts.Total()+int64(len(s.Runs)+len(s.Waiting)), "%+v", s)
	var told int64
	for _, e := range s.History {
		told += e.Count
	}
	require.LessOrEqual(c.rt, told, s.Counts.Total())
	if len(s.History) < maxTickHistory/2 { // else some may have gone, for want of room
		require.Equal(c.rt, s.Counts.Total(), told)
	}

	// Nothing starts twice; nor after what was due later, unless they may run
	// beside each other.
	if c.ask.OnOverlap != AllowOverlap {
		require.True(c.rt, slices.IsSorted(c.started), c.started)
	}
	require.Len(c.rt, slices.Compact(slices.Sorted(slices.Values(c.started))), len(c.started), c.started)

	// No more at once than allowed.
	limit, working := 1, 0
	if c.ask.OnOverlap == AllowOverlap {
		limit = c.ask.Max
	}
	for _, d := range c.daemons {
		working += len(d.working)
	}
	require.LessOrEqual(c.rt, working, limit)
	require.LessOrEqual(c.rt, len(c.server.markers()), limit)

	// The buffer is in order, and bounded, except for a tick whose claim lost its
	// reply and that waits again.
	require.True(c.rt, slices.IsSortedFunc(s.Waiting, time.Time.Compare))
	room := map[OnOverlap]int{BufferOverlap: c.ask.Max, CancelOverlap: 1}[c.ask.OnOverlap]
	require.LessOrEqual(c.rt, len(s.Waiting), room+limit)
}

// end lets all daemons decide all, and checks that nothing is left.
func (c *crowd) end() {
	last := 1
	for _, d := range c.daemons {
		last = max(last, d.next+1) // a claim of next may have been executed without a reply
	}
	for _, d := range c.daemons {
		clear(d.working)
		for _, run := range d.runs {
			err := finish(c.ctx, d.ledger, run, End{Outcome: Ran})
			require.True(c.rt, err == nil || errors.As(err, new(*InterruptedError)), err)
		}
		d.runs = nil
	}
	for _, d := range c.daemons {
		for ; d.next < last; d.next++ {
			_, err := d.ledger.RecordSkip(c.ctx, "job", "end", at(d.next))
			require.NoError(c.rt, err)
		}
		_, err := d.ledger.RecordSkip(c.ctx, "job", "end")
		require.NoError(c.rt, err)
	}
	d := c.daemons[0] // a live daemon gets what others have buffered
	for {
		claim, err := d.ledger.ClaimWaiting(c.ctx, "job", 1)
		require.NoError(c.rt, err)
		if claim.Verdict == Taken {
			break
		}
		require.Equal(c.rt, Claimed, claim.Verdict)
		c.began(d, claim.Run)
		require.NoError(c.rt, finish(c.ctx, d.ledger, claim.Run, End{Outcome: Ran}))
		clear(d.working)
	}
	// A dead run is only noticed by the next one.
	claim, err := d.ledger.Claim(c.ctx, "job", at(last), Ask{})
	require.NoError(c.rt, err)
	require.Equal(c.rt, Claimed, claim.Verdict)
	require.NoError(c.rt, finish(c.ctx, d.ledger, claim.Run, End{Outcome: Ran}))
	c.started = append(c.started, last)
	c.check()
	s, err := d.ledger.State(c.ctx, "job")
	require.NoError(c.rt, err)
	require.Empty(c.rt, s.Runs)
	require.Empty(c.rt, s.Waiting)
	require.Empty(c.rt, c.server.markers())
	require.EqualValues(c.rt, last+1, s.Counts.Total())
}

// Whatever replies are lost, sessions end, daemons are killed and started anew:
// each tick has exactly one outcome, and no rule is broken on the way.
func TestEachTickHasOneOutcomeWhateverThePolicyAndWhateverIsLost(t *testing.T) {
	policies := []Ask{
		{OnOverlap: SkipOverlap},
		{OnOverlap: TellOverlap},
		{OnOverlap: BufferOverlap, Max: 1},
		{OnOverlap: BufferOverlap, Max: 3},
		{OnOverlap: CancelOverlap},
		{OnOverlap: AllowOverlap, Max: 3},
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := newCrowd(t.Context(), rt, rapid.SampledFrom(policies).Draw(rt, "policy"))
		pick := func() *tickDaemon { return c.daemons[rapid.IntRange(0, len(c.daemons)-1).Draw(rt, "daemon")] }
		rt.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { c.check() },
			"claim":   func(*rapid.T) { c.claim(pick()) },
			"claim2":  func(*rapid.T) { c.claim(pick()) },
			"waiting": func(*rapid.T) { c.claimWaiting(pick()) },
			"finish":  func(*rapid.T) { c.finish(pick()) },
			"expire":  func(*rapid.T) { c.expire(pick()) },
			"kill":    func(rt *rapid.T) { c.boot(rapid.IntRange(0, len(c.daemons)-1).Draw(rt, "killed")) },
		})
		c.end()
	})
}
