package virtualtime

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A holder that is cut off as soon as it holds: every instant is known.
func TestHolderThatIsCutOffStopsAMarginBeforeTheServerFreesTheLock(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with a session of 16s and a hook, and a waiter
		const session = 16 * time.Second
		holder, waiter := w.program("holder", session), w.program("waiter", long)
		var stopped, cleaned time.Duration
		var hook error
		held := holder.do(lockguard.Requirement{CleanupTimeout: time.Minute},
			func(ctx context.Context) error {
				<-ctx.Done()
				stopped = w.now()
				return context.Cause(ctx)
			},
			func(ctx context.Context) error {
				cleaned, hook = w.now(), context.Cause(ctx)
				return nil
			})
		next := waiter.do(lockguard.Requirement{}, untilCancelled)
		require.True(t, held.holds())
		w.until(time.Second)

		// when the network between it and the server is cut
		deadline := held.hold().Deadline().Sub(w.start)
		w.zk.Partition("holder")

		// then its context ends in the instant that it was promised, after half of the timeout at least, and says why
		lost := lostBy(t, held.returned())
		require.Equal(t, deadline, stopped)
		require.Greater(t, stopped-time.Second, session/2)
		require.Equal(t, recipes.LossSession, lost.Reason)
		risk := only[lockguard.AtRisk](holder)
		require.GreaterOrEqual(t, stopped-risk.At.Sub(w.start), session/4-session/32, "the watchdog looks so often")
		require.Equal(t, stopped, risk.Deadline.Sub(w.start))

		// and its hook ran at once, under a context that had ended already with the loss
		require.Equal(t, stopped, cleaned)
		require.Equal(t, error(lost), hook)
		at := fmt.Sprint(deadline)
		require.Equal(t, []string{"0s Acquired", at + " Lost", at + " CleanupStarted", at + " CleanupDone"}, holder.told())
		require.Nil(t, next.hold(), "the server has not freed the lock")

		// and the waiter is granted at the end of the session at the server, which it rounds up to a tick
		w.until(session + tick)
		require.Equal(t, []string{"18s Acquired"}, waiter.told())
		require.GreaterOrEqual(t, next.began()-stopped, session/12, "the margin")
		require.Greater(t, next.hold().Token(), held.hold().Token())

		// and when the network is back, the old holder changes nothing
		w.until(time.Minute)
		w.zk.Heal()
		synctest.Wait()
		require.True(t, next.holds())
		require.Len(t, w.contenders(), 1)
		require.ErrorIs(t, held.hold().Release(t.Context()), lockguard.ErrReleased)
	})
}

// A terminal that is paused reads nothing, and whoever writes a message waits for that.
type terminal struct{ paused, resumed chan struct{} }

func (l *terminal) Enabled(context.Context, slog.Level) bool { return true }
func (l *terminal) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *terminal) WithGroup(string) slog.Handler            { return l }
func (l *terminal) Handle(context.Context, slog.Record) error {
	select {
	case <-l.paused:
		<-l.resumed
	default:
	}
	return nil
}

func TestHolderThatIsCutOffStopsInTimeThoughNobodyReadsItsMessages(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		const session = 16 * time.Second
		log := &terminal{make(chan struct{}), make(chan struct{})}
		holder := w.program("holder", session, func(cfg *recipes.Config) { cfg.Logger = slog.New(log) })
		t.Cleanup(func() { close(log.resumed) }) // before the client is closed
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		require.True(t, held.holds())

		close(log.paused)
		deadline := held.hold().Deadline().Sub(w.start)
		w.zk.Partition("holder")

		require.Equal(t, recipes.LossSession, lostBy(t, held.returned()).Reason)
		require.Equal(t, deadline, held.ended)
	})
}

// Whenever the network is cut, and whatever the margin.
func TestContextEndsAtTheDeadlineAndTheLockIsFreedAtTheExpiryWheneverTheNetworkIsCut(t *testing.T) {
	for _, c := range []struct {
		session time.Duration
		margin  time.Duration // 0: a twelfth
	}{
		{15 * time.Second, 0},
		{40 * time.Second, 5 * time.Second},
		{time.Hour, 0},
		{time.Hour, time.Minute},
	} {
		for i := range 8 {
			cut := (c.session + c.session/7*time.Duration(i)).Truncate(time.Millisecond)
			t.Run(fmt.Sprintf("session %s, margin %s, cut after %s", c.session, c.margin, cut), func(t *testing.T) {
				story(t, func(t *testing.T, w *world) {
					// given a holder and a waiter
					holder := w.program("holder", c.session, func(cfg *recipes.Config) { cfg.Margin = c.margin })
					waiter := w.program("waiter", long)
					held := holder.do(lockguard.Requirement{}, untilCancelled)
					next := waiter.do(lockguard.Requirement{}, untilCancelled)

					// when the network is cut some time later
					w.until(cut)
					require.True(t, held.holds())
					deadline := held.hold().Deadline().Sub(w.start)
					expiry := cut + holder.session().Expires
					w.zk.Partition("holder")

					// then the holder stops in the instant that it was promised
					require.Equal(t, recipes.LossSession, lostBy(t, held.returned()).Reason)
					require.Equal(t, deadline, held.ended)

					// and the waiter holds in the instant of the expiry, by the margin at least later
					w.until(expiry)
					require.Equal(t, expiry, next.began())
					margin := c.margin
					if margin == 0 {
						margin = c.session / 12
					}
					require.GreaterOrEqual(t, expiry-deadline, margin)
					w.zk.Heal()
				})
			})
		}
	}
}

func TestHolderThatReconnectsWithinItsSessionKeepsTheLock(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder, and one that waits behind it
		holder, waiter := w.program("holder", 16*time.Second), w.program("waiter", long)
		held := holder.do(lockguard.Requirement{}, lasting(time.Minute))
		next := waiter.do(lockguard.Requirement{}, untilCancelled)
		id, token := holder.session().ID, held.hold().Token()

		// when its connection breaks again and again, and once for long
		for i := range 10 {
			w.until(time.Duration(i+1) * time.Second)
			require.True(t, w.zk.Disconnect(id))
			synctest.Wait()
			require.True(t, holder.session().Connected, "it reconnects in the same instant")
		}
		w.zk.Partition("holder")
		w.until(20 * time.Second)
		w.zk.Heal()
		w.until(30 * time.Second)

		// then it was told nothing, has the same session and token, and gives the lock on at its end
		require.True(t, held.holds())
		require.Equal(t, id, holder.session().ID)
		require.Equal(t, token, held.hold().Token())
		require.NoError(t, held.returned())
		require.Equal(t, []string{"0s Acquired", "1m0s Released"}, holder.told())
		require.Equal(t, time.Minute, next.began())
	})
}

func TestRestartOfTheServerEndsNoHold(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter
		holder, waiter := w.program("holder", 40*time.Second), w.program("waiter", 40*time.Second)
		held := holder.do(lockguard.Requirement{}, lasting(5*time.Minute))
		next := waiter.do(lockguard.Requirement{}, untilCancelled)

		// when the server is down, twice, for less than a holder can do without it, and once it restarts at once
		for _, outage := range []struct{ from, to time.Duration }{{10 * time.Second, 28 * time.Second}, {time.Minute, 78 * time.Second}} {
			w.until(outage.from)
			w.zk.Stop()
			w.until(outage.to)
			require.NoError(t, held.hold().Context().Err())
			require.NoError(t, w.zk.Restart())
			w.until(outage.to + 5*time.Second) // the client pauses between its tries, for less than this
			require.NoError(t, held.hold().Check())
		}
		w.until(2 * time.Minute)
		require.NoError(t, w.zk.Restart())

		// then nobody was told anything, and the waiter is next
		require.NoError(t, held.returned())
		require.Equal(t, []string{"0s Acquired", "5m0s Released"}, holder.told())
		require.Equal(t, []string{"5m0s Acquired"}, waiter.told())
		require.Greater(t, next.hold().Token(), held.hold().Token())
	})
}

func TestHoldEndsWithTheDataOfTheServer(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder
		const session = 16 * time.Second
		holder := w.program("holder", session)
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		w.until(time.Second)

		// when the server loses all its data
		deadline := held.hold().Deadline().Sub(w.start)
		w.zk.LoseData()

		// then the hold ends at its deadline, because nobody answers for it any more
		require.Equal(t, recipes.LossSession, lostBy(t, held.returned()).Reason)
		require.Equal(t, deadline, held.ended)
		require.Empty(t, w.contenders())
	})
}

func TestWaiterWhoseSessionDiesQueuesAgainAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder for three hours, and two that wait for four at most
		holder, first, second := w.program("holder", long), w.program("first", long), w.program("second", long)
		held := holder.do(lockguard.Requirement{}, lasting(3*time.Hour))
		patience := 4 * time.Hour
		unlucky := first.do(lockguard.Requirement{AcquireTimeout: &patience}, lasting(time.Minute))
		w.until(time.Minute)
		lucky := second.do(lockguard.Requirement{AcquireTimeout: &patience}, lasting(2*time.Hour))
		dead := first.session().ID

		// when the first one's session expires
		w.until(2 * time.Hour)
		require.True(t, w.zk.Expire(dead))
		w.until(2*time.Hour + 10*time.Millisecond)

		// then it stands in the queue again, in a new session, behind the second
		require.Equal(t, []string{"2h0m0s Requeued"}, first.told())
		require.NotEqual(t, dead, first.session().ID)
		require.Len(t, w.contenders(), 3)

		// and its acquire timeout runs on as if nothing had been
		require.NoError(t, held.returned())
		require.Equal(t, 3*time.Hour, lucky.began())
		var refused *recipes.NotAcquiredError
		require.ErrorAs(t, unlucky.returned(), &refused)
		require.Equal(t, patience, refused.Waited)
		require.Equal(t, []string{"2h0m0s Requeued", "3h0m0.025s Blocked", "4h0m0s NotAcquired"}, first.told())
		require.Len(t, w.contenders(), 1)
		require.NoError(t, lucky.returned())
		require.Equal(t, 5*time.Hour, lucky.ended)
	})
}

// What an idle holder costs the servers: syncs, which the leader answers from memory, and writes as
// seldom as the proof of a quorum needs them, by one client for all.
func TestIdleHoldersSendAHeartbeatEveryFifteenthOfTheSessionAndOneOfThemWritesForAll(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		const session, holders, rest = 15 * time.Second, 5, 10 * time.Minute
		var mu sync.Mutex
		sent := map[string]int{}
		for i := range holders {
			p := w.program(fmt.Sprint("holder", i), session)
			w.until(w.now() + time.Duration(i)*170*time.Millisecond) // they did not connect at the same instant
			lock, err := p.client.PriorityLock(fmt.Sprint("idle", i))
			require.NoError(t, err)
			g, err := lock.Acquire(t.Context(), recipes.Request{LeaseTimeout: time.Hour})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, g.Release(context.Background())) })
			p.client.OnOperation(func(op recipes.Operation) {
				mu.Lock()
				defer mu.Unlock()
				sent[op.Name]++
			})
		}

		from := w.now()
		w.until(from + rest)

		mu.Lock()
		defer mu.Unlock()
		each := float64(sent["sync"]+sent["multi"]) / holders / rest.Seconds()
		require.InDelta(t, 15/session.Seconds(), each, 0.15, "%v", sent)
		writes := float64(sent["multi"]) / rest.Seconds()
		require.Less(t, writes/each, 1.0, "of all, for each heartbeat of one holder: %v", sent)
		require.Positive(t, writes)
		t.Logf("a second: %.2f heartbeats a holder, %.2f writes of all: %v", each, writes, sent)
	})
}
