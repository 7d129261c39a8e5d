package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N9: a server that accepts connections and says nothing, from the first one on or from now on.
func TestAcquireReturnsAtItsDeadlineThoughTheServerIsMute(t *testing.T) {
	const deadline = 700 * time.Millisecond
	const leaving = 500 * time.Millisecond // how long it tries to take back what it has asked for
	each(t, map[string]func(w *world) (c *lock.Client, speaks func()){
		"from the first connection on": func(w *world) (*lock.Client, func()) {
			rule := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			return harness.NewClient(w, lock.Config{Dialer: w.Dialer("A")}), rule.Release
		},
		"on the next connection": func(w *world) (*lock.Client, func()) {
			c := w.client("A")
			rule := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			w.disconnect("A")
			return c.Client, rule.Release
		},
		"once it is connected": func(w *world) (*lock.Client, func()) {
			c := w.client("A")
			w.Partition("A")
			return c.Client, func() { w.Heal("A") }
		},
		"after the request has gone out": func(w *world) (*lock.Client, func()) {
			return w.client("A").Client, w.On(T1(users).From("A")).HoldReply().Release
		},
		"after it has joined the queue": func(w *world) (*lock.Client, func()) {
			w.hold("H")
			return w.client("A").Client, w.On(T2(users).From("A")).HoldReply().Release
		},
	}, func(w *world, mute func(w *world) (c *lock.Client, speaks func())) {
		c, speaks := mute(w)
		l := w.fixture.Lock(c, users)

		// when somebody acquires with a deadline, then it ends there, with a moment to leave, and says why
		start := w.Now()
		ctx, cancel := context.WithTimeout(w.Context(), deadline)
		defer cancel()
		_, err := l.Acquire(ctx, lock.Request{})
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.GreaterOrEqual(w, w.Now()-start, deadline)
		require.LessOrEqual(w, w.Now()-start, deadline+leaving)

		// and by its acquire timeout, too
		start = w.Now()
		_, err = l.Acquire(w.Context(), lock.Request{Terms: priority.Terms{AcquireTimeout: new(deadline)}})
		require.True(w, lock.IsNotAcquired(err))
		require.ErrorAs(w, err, new(*lock.UnavailableError))
		require.GreaterOrEqual(w, w.Now()-start, deadline)
		require.LessOrEqual(w, w.Now()-start, deadline+leaving)

		// and nothing of it is left once the server speaks again
		speaks()
		require.NoError(w, c.Ready(w.Context()))
	})
}

// A listener may use its grant, and must not block. A listener that blocks delays only its own hold.
func TestListenerThatBlocksDoesNotKeepOthersFromHearingOfTheirLoss(t *testing.T) {
	each(t, map[string]func(g *lock.Grant, free chan struct{}){
		"it blocks":           func(_ *lock.Grant, free chan struct{}) { <-free },
		"it checks its grant": func(g *lock.Grant, _ chan struct{}) { _ = g.Check() },
	}, func(w *world, hears func(g *lock.Grant, free chan struct{})) {
		// given two holds of one client, one of which acts when it learns of the risk
		c := w.client("A")
		stuck, free, grants := make(chan struct{}), make(chan struct{}), make(chan *lock.Grant, 1)
		g, err := c.w.fixture.Lock(c.Client, "stuck").Acquire(w.Context(), lock.Request{Notify: func(n lock.Notice) {
			if _, risk := n.(lock.AtRisk); risk {
				close(stuck)
				hears(<-grants, free)
			}
		}})
		require.NoError(w, err)
		grants <- g
		other := w.hold("A", at(1))

		// when the client is cut off
		cut := w.Now()
		w.Partition("A")
		<-stuck

		// then the other one is lost in time
		_, lost := awaitAt[lock.Lost](other)
		require.Less(w, lost-cut, c.SessionTimeout())
		close(free)
		w.Heal("A")
		_ = g.Release(context.Background()) // it may be lost as well
	})
}

// N14: a flood of events, and behind it the end of the session, for one that is
// slow to hear.
func TestExpiryBehindAFloodOfEventsIsSeen(t *testing.T) {
	const locks = 20
	scenario(t, func(w *world) {
		// given a client that holds many locks, and waits for as many, and listens slowly
		slowly := func(r *lock.Request) {
			hear := r.Notify
			r.Notify = func(n lock.Notice) { <-time.After(time.Millisecond); hear(n) }
		}
		c, others := w.client("A"), w.client("B")
		var holds, waits, asks, blocks []*user
		for i := range locks {
			scope := string(rune('a' + i))
			held := c.ask("mine/"+scope, "mine "+scope, cleanup(time.Hour), slowly)
			held.Granted()
			holds = append(holds, held)
			block := others.ask("theirs/"+scope, "theirs "+scope, at(5))
			block.Granted()
			blocks = append(blocks, block)
			wait := c.ask("theirs/"+scope, "waiting "+scope, slowly)
			wait.Queued()
			waits = append(waits, wait)
		}

		// when an event comes for each of them, and the end of the session behind
		flood := w.On(zktest.Event().From("A")).Hold()
		for i := range locks {
			ask := others.ask(holds[i].scope, "asking", at(9))
			await[lock.PreemptSent](ask)
			asks = append(asks, ask)
		}
		w.reached(flood)
		w.expire("A")
		for _, block := range blocks {
			block.release()
		}
		flood.Release()

		// then each hold is lost, and each waiter holds in the next session
		for _, held := range holds {
			require.Equal(w, lock.LossSession, await[lock.Lost](held).Err.Reason)
		}
		for i := range locks {
			asks[i].Granted()
			waits[i].Granted()
		}
	})
}
