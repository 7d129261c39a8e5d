package virtualtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A holder that is cut off as soon as it holds: every instant is known.
func TestHolderThatIsCutOffStopsAMarginBeforeTheServerFreesTheLock(t *testing.T) {
	run(t, func(w *world) {
		// given a holder with a session of 16s and a hook, and a waiter
		const session = 16 * time.Second
		holder, waiter := w.Program("holder", session), w.Program("waiter", long)
		var stopped, cleaned time.Duration
		var hook error
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}},
			func(ctx context.Context) error {
				<-ctx.Done()
				stopped = w.Now()
				return context.Cause(ctx)
			},
			func(ctx context.Context) error {
				cleaned, hook = w.Now(), context.Cause(ctx)
				return nil
			})
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)
		require.True(w, held.Holds())
		w.Until(time.Second)

		// when the network between it and the server is cut
		deadline := w.Since(held.Hold().Deadline())
		w.Partition("holder")

		// then its context ends in the instant that it was promised, after half of the timeout at least, and says why
		lost := virtual.LostBy(w.T, held.Returned())
		require.Equal(w, deadline, stopped)
		require.Greater(w, stopped-time.Second, session/2)
		require.Equal(w, lock.LossSession, lost.Reason)
		risk := virtual.Only[lock.AtRisk](holder)
		require.GreaterOrEqual(w, stopped-w.Since(virtual.About[lock.AtRisk](holder).At), session/4-session/32, "the watchdog looks so often")
		require.Equal(w, stopped, w.Since(risk.Deadline))

		// and its hook ran at once, under a context that had ended already with the loss
		require.Equal(w, stopped, cleaned)
		require.Equal(w, error(lost), hook)
		at := fmt.Sprint(deadline)
		require.Equal(w, []string{"0s Acquired", at + " Lost", at + " CleanupStarted", at + " CleanupDone"}, holder.Told())
		require.Nil(w, next.Hold(), "the server has not freed the lock")

		// and the waiter is granted at the end of the session at the server, which it rounds up to a tick
		w.Until(session + tick)
		require.Equal(w, []string{"18s Acquired"}, waiter.Told())
		require.GreaterOrEqual(w, next.Began()-stopped, session/12, "the margin")
		require.Greater(w, next.Hold().Token(), held.Hold().Token())

		// and when the network is back, the old holder changes nothing
		w.Until(time.Minute)
		w.Heal()
		synctest.Wait()
		require.True(w, next.Holds())
		require.Len(w, contenders(w), 1)
		require.ErrorIs(w, held.Hold().Release(w.Context()), lockguard.ErrReleased)
	})
}

// A stuckLog wants every record, and takes none before it is freed.
type stuckLog struct {
	slog.Handler

	free chan struct{}
}

func (s stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	<-s.free
	return nil
}

func TestHolderThatIsCutOffStopsInTimeThoughItsMessagesAreNotRead(t *testing.T) {
	run(t, func(w *world) {
		const session = 16 * time.Second
		log := stuckLog{free: make(chan struct{})}
		holder := w.Program("holder", session, func(cfg *lock.Config) { cfg.Logger = slog.New(log) })
		w.Cleanup(func() { close(log.free) }) // before the client is closed
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		require.True(w, held.Holds())

		deadline := w.Since(held.Hold().Deadline())
		w.Partition("holder")

		require.Equal(w, lock.LossSession, virtual.LostBy(w.T, held.Returned()).Reason)
		require.Equal(w, deadline, held.Ended())
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
				run(t, func(w *world) {
					// given a holder and a waiter
					holder := w.Program("holder", c.session, func(cfg *lock.Config) { cfg.Margin = c.margin })
					waiter := w.Program("waiter", long)
					held := holder.Do(lockguard.Requirement{}, untilCancelled)
					next := waiter.Do(lockguard.Requirement{}, untilCancelled)

					// when the network is cut some time later, right after the leader has answered
					w.Until(cut)
					require.True(w, held.Holds())
					answered(holder)
					deadline := w.Since(held.Hold().Deadline())
					expiry := cut + holder.Session().Expires
					w.Partition("holder")

					// then the holder stops in the instant that it was promised, the margin before it could expire
					margin := cmp.Or(c.margin, c.session/12)
					require.LessOrEqual(w, deadline, cut+c.session-margin)
					require.Equal(w, lock.LossSession, virtual.LostBy(w, held.Returned()).Reason)
					require.Equal(w, deadline, held.Ended())

					// and the waiter holds in the instant of the expiry, by the margin at least later
					w.Until(expiry)
					require.Equal(w, expiry, next.Began())
					require.GreaterOrEqual(w, expiry-deadline, margin)
					w.Heal()
				})
			})
		}
	}
}

func TestHolderThatReconnectsWithinItsSessionKeepsTheLock(t *testing.T) {
	run(t, func(w *world) {
		// given a holder, and one that waits behind it
		holder, waiter := w.Program("holder", 16*time.Second), w.Program("waiter", long)
		held := holder.Do(lockguard.Requirement{}, lasting(time.Minute))
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)
		id, token := holder.Session().ID, held.Hold().Token()

		// when its connection breaks again and again, and once for long
		for i := range 10 {
			w.Until(time.Duration(i+1) * time.Second)
			require.True(w, w.Disconnect(id))
			synctest.Wait()
			require.True(w, holder.Session().Connected, "it reconnects in the same instant")
		}
		w.Partition("holder")
		w.Until(20 * time.Second)
		w.Heal()
		w.Until(30 * time.Second)

		// then it was told nothing, has the same session and token, and gives the lock on at its end
		require.True(w, held.Holds())
		require.Equal(w, id, holder.Session().ID)
		require.Equal(w, token, held.Hold().Token())
		require.NoError(w, held.Returned())
		require.Equal(w, []string{"0s Acquired", "1m0s Released"}, holder.Told())
		require.Equal(w, time.Minute, next.Began())
	})
}

func TestRestartOfTheServerEndsNoHold(t *testing.T) {
	run(t, func(w *world) {
		// given a holder and a waiter
		holder, waiter := w.Program("holder", 40*time.Second), w.Program("waiter", 40*time.Second)
		held := holder.Do(lockguard.Requirement{}, lasting(5*time.Minute))
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)

		// when the server is down, twice, for less than a holder can do without it, and once it restarts at once
		for _, outage := range []struct{ from, to time.Duration }{{10 * time.Second, 28 * time.Second}, {time.Minute, 78 * time.Second}} {
			w.Until(outage.from)
			w.Stop()
			w.Until(outage.to)
			require.NoError(w, held.Hold().Context().Err())
			require.NoError(w, w.Restart())
			w.Until(outage.to + 5*time.Second) // the client pauses between its tries, for less than this
			require.NoError(w, held.Hold().Check())
		}
		w.Until(2 * time.Minute)
		require.NoError(w, w.Restart())

		// then no message was written, and the waiter is next
		require.NoError(w, held.Returned())
		require.Equal(w, []string{"0s Acquired", "5m0s Released"}, holder.Told())
		require.Equal(w, []string{"5m0s Acquired"}, waiter.Told())
		require.Greater(w, next.Hold().Token(), held.Hold().Token())
	})
}

func TestWaiterWhoseSessionDiesQueuesAgainAtOnce(t *testing.T) {
	run(t, func(w *world) {
		// given a holder for three hours, and two that wait for four at most
		holder, first, second := w.Program("holder", long), w.Program("first", long), w.Program("second", long)
		held := holder.Do(lockguard.Requirement{}, lasting(3*time.Hour))
		patience := 4 * time.Hour
		unlucky := first.Do(lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: &patience}}, lasting(time.Minute))
		w.Until(time.Minute)
		lucky := second.Do(lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: &patience}}, lasting(2*time.Hour))
		dead := first.Session().ID

		// when the first one's session expires
		w.Until(2 * time.Hour)
		require.True(w, w.Expire(dead))
		w.Until(2*time.Hour + 10*time.Millisecond)

		// then it stands in the queue again, in a new session, behind the second
		require.Equal(w, []string{"2h0m0s Requeued"}, first.Told())
		require.NotEqual(w, dead, first.Session().ID)
		require.Len(w, contenders(w), 3)

		// and its acquire timeout runs on as if nothing had been
		require.NoError(w, held.Returned())
		require.Equal(w, 3*time.Hour, lucky.Began())
		var refused *lock.NotAcquiredError
		require.ErrorAs(w, unlucky.Returned(), &refused)
		require.Equal(w, patience, refused.Waited)
		require.Equal(w, []string{"2h0m0s Requeued", "3h0m0.025s Blocked", "4h0m0s NotAcquired"}, first.Told())
		require.Len(w, contenders(w), 1)
		require.NoError(w, lucky.Returned())
		require.Equal(w, 5*time.Hour, lucky.Ended())
	})
}

// What an idle holder costs the servers: syncs, which the leader answers from memory, and writes as
// seldom as the proof of a quorum needs them, by one client for all.
func TestIdleHoldersSendAHeartbeatEveryFifteenthOfTheSessionAndOneOfThemWritesForAll(t *testing.T) {
	run(t, func(w *world) {
		const session, holders, rest = 15 * time.Second, 5, 10 * time.Minute
		var mu sync.Mutex
		sent := map[string]int{}
		for i := range holders {
			p := w.Program(fmt.Sprint("holder", i), session)
			w.Until(w.Now() + time.Duration(i)*170*time.Millisecond) // they did not connect at the same instant
			g := p.Take(fmt.Sprint("idle", i), lock.Request{})
			w.Cleanup(func() { require.NoError(w, g.Release(context.Background())) })
			p.Client.OnOperation(func(op zkclient.Operation) {
				mu.Lock()
				defer mu.Unlock()
				sent[op.Name]++
			})
		}

		from := w.Now()
		w.Until(from + rest)

		mu.Lock()
		defer mu.Unlock()
		each := float64(sent["sync"]+sent["multi"]) / holders / rest.Seconds()
		require.InDelta(w, 15/session.Seconds(), each, 0.15, "%v", sent)
		writes := float64(sent["multi"]) / rest.Seconds()
		require.Less(w, writes/each, 1.0, "of all, for each heartbeat of one holder: %v", sent)
		require.Positive(w, writes)
		w.Logf("a second: %.2f heartbeats a holder, %.2f writes of all: %v", each, writes, sent)
	})
}
