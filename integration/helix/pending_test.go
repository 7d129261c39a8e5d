package helix

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 33, 35 and 37, and 34 for an equal: refused when it does not want to wait; otherwise it queues behind.
func TestPendingRequestKeepsItsPlaceBeforeALowerOne(t *testing.T) {
	t.Parallel()
	for how, force := range map[string][]change{
		"polite":                   {at(5)},
		"forceful":                 {at(5), forceful},
		"forceful, at once":        {at(5), forceful, waiting(0)},
		"equal, polite":            {at(9)},
		"equal, forceful":          {at(9), forceful},
		"equal, forceful, at once": {at(9), forceful, waiting(0)},
	} {
		t.Run(how, func(t *testing.T) {
			h := newFixture(t)

			// given that A of priority 1 holds, and H of priority 9 waits for it to clean up
			a := h.holds("A", at(1), lease(time.Hour), cleanup(declared))
			pending := h.asks("H", at(9))
			await[lock.PreemptSent](pending)
			await[lock.PreemptRequested](a)

			c := h.Client()
			h.unchanged(func() {
				// when M tries, then it is refused, and nothing has changed
				var busy *lock.NotAcquiredError
				require.ErrorAs(t, h.ask(c, "M", append(force, try)...).Refused(), &busy)
				require.Equal(t, []string{"A"}, harness.Owners(busy.Holders))
				require.Equal(t, 1, busy.Ahead)
			})

			// when M asks and waits, then it stands behind H
			m := h.ask(c, "M", force...)
			require.Equal(t, 2, await[lock.Queued](m).Position)
			require.Equal(t, []string{"H", "M"}, h.waiters())

			// and it is still H alone that preempts A
			asking := h.state().Holders[0].PreemptedBy
			require.Len(t, asking, 1)
			require.Equal(t, "H", asking[0].Owner)
			none[lock.Displaced](pending)
			none[lock.PreemptSent](m)

			// and H that is granted, by the release itself: there is no moment without a holder
			a.release()
			require.Equal(t, "H", h.holder())
			require.Greater(t, pending.token(), a.token())
			none[lock.TakenOver](pending)
			m.IsPending()
		})
	}
}

// Helix 36
func TestRenewalDoesNotShakeOffTheOneThatWaits(t *testing.T) {
	t.Parallel()
	for how, hold := range map[string]func(*fixture) (renew func() error, release func()){
		"under a guard": func(h *fixture) (func() error, func()) {
			a := h.holds("A", cleanup(declared))
			return func() error { return a.Granted().Extend(h.Context(), time.Hour) }, a.release
		},
		// A holder without a guard in front, that has not listened.
		"by the bare lock": func(h *fixture) (func() error, func()) {
			l, err := h.Client().PriorityLock(scope)
			require.NoError(h, err)
			a, err := l.Acquire(h.Context(), lock.Request{Identity: priority.Identity{Owner: "A"}, Terms: priority.Terms{CleanupTimeout: declared}})
			require.NoError(h, err)
			return func() error { return a.Extend(h.Context(), time.Hour) },
				func() { require.NoError(h, a.Release(h.Context())) }
		},
	} {
		t.Run(how, func(t *testing.T) {
			h := newFixture(t)

			// given that B waits for A to clean up
			renew, release := hold(h)
			b := h.asks("B", at(5))
			await[lock.PreemptSent](b)

			// when A renews its lease
			h.unchanged(func() {
				err := renew()

				// then it learns that it has to release, and for whom
				if preempted, ok := errors.AsType[*lockguard.PreemptedError](err); ok {
					require.Equal(t, "B", preempted.By)
					return
				}
				var pending *lock.PreemptPendingError
				require.ErrorAs(t, err, &pending)
				require.Equal(t, "B", pending.By.By.Owner)
			})

			// and B still waits, and A is still asked
			b.IsPending()
			asking := h.state().Holders[0].PreemptedBy
			require.Len(t, asking, 1)
			require.Equal(t, "B", asking[0].Owner)
			release()
			b.Granted()
		})
	}
}
