package locks

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// board starts one with a client of its own.
func (f *fixture) board() *live.Board {
	f.Helper()
	c := f.Client()
	look, err := c.Lookout(lock.LookoutOptions{Gap: gap})
	require.NoError(f, err)
	b, err := live.New(live.Options{Source: look, Now: c.Now})
	require.NoError(f, err)
	harness.Run(f, "the board", b.Run)
	return b
}

// still is what of locks does not depend on when they were looked at.
func still(locks []live.Lock) []live.Lock {
	locks = slices.Clone(locks)
	for i := range locks {
		l := &locks[i]
		l.At = time.Time{}
		l.Holders = slices.Clone(l.Holders)
		for j := range l.Holders {
			l.Holders[j].LeaseLeft, l.Holders[j].MinLeft = 0, 0
		}
		l.Waiters = slices.Clone(l.Waiters)
		for j := range l.Waiters {
			l.Waiters[j].Why = "" // with times
		}
	}
	return locks
}

// A chronicle is what became of the holds of a test, by those who had them.
type chronicle struct {
	mu    sync.Mutex
	holds map[lock.Token]map[string]deed // by owner: shared ones may be granted at once
}

// A deed is how a hold ended, as far as the one who had it knows.
type deed string

const (
	released deed = "released"
	lost     deed = "lost" // in whatever way
)

func (c *chronicle) note(token lock.Token, owner string, how deed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds[token] == nil {
		c.holds[token] = map[string]deed{}
	}
	c.holds[token][owner] = how
}

// bustle is a crowd that does at random what can be done with locks: acquire, wait,
// give up, release, preempt, take by force, share, downgrade, extend, break, die.
func (f *fixture) bustle(seed uint64, scopes, workers, steps int) *chronicle {
	f.Helper()
	c := &chronicle{holds: map[lock.Token]map[string]deed{}}
	op := f.Client(as("op"))
	var work sync.WaitGroup
	for w := range workers {
		client := f.Client()
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		work.Go(func() {
			for n := range steps {
				f.step(c, client, op, random, fmt.Sprintf("worker-%d-%d", w, n), fmt.Sprintf("scope/%d", random.IntN(scopes)))
			}
		})
	}
	work.Wait()
	return c
}

func (f *fixture) step(c *chronicle, client, op *lock.Client, random *rand.Rand, owner, scope string) {
	background := context.Background()
	l, err := client.PriorityLock(scope)
	if err != nil {
		panic(err)
	}
	r := lock.Request{
		Identity: priority.Identity{Owner: owner}, Terms: priority.Terms{
			Priority: priority.Level(random.IntN(5)), Mode: []priority.Mode{priority.Exclusive, priority.Exclusive, priority.Shared}[random.IntN(3)],
			Forceful: random.IntN(2) == 0, LeaseTimeout: time.Duration(1+random.IntN(60)) * time.Millisecond,
			CleanupTimeout: time.Duration(random.IntN(3)*10) * time.Millisecond,
		},
	}
	over := make(chan struct{})
	r.Notify = on[lock.Lost](func() { close(over) })
	if random.IntN(8) == 0 {
		r.LockDelay = time.Duration(1+random.IntN(40)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(background, time.Duration(1+random.IntN(80))*time.Millisecond)
	defer cancel()
	grant, err := l.Acquire(ctx, r)
	if err != nil {
		return
	}
	token, err := grant.Token(background)
	pause := func() { <-time.After(time.Duration(random.IntN(30)) * time.Millisecond) }
	pause()
	switch random.IntN(12) {
	case 0:
		_ = grant.Downgrade(background)
		pause()
	case 1:
		_ = grant.Extend(background, time.Minute)
		pause()
	case 2:
		if err == nil {
			_, _ = op.Break(background, lock.BreakRequest{Scope: scope, Token: token, By: "op", Reason: "at random"})
		}
	case 3:
		if id, password := client.Session(); id != 0 && f.Server.Expire(background, id, password) == nil {
			if err == nil {
				c.note(token, owner, lost)
			}
			<-over // it is no more
			return
		}
	}
	how := released
	if released := grant.Release(background); released != nil {
		how = lost
	}
	if err == nil {
		c.note(token, owner, how)
	}
}

// check fails the test unless a history can have been.
func (c *chronicle) check(t *testing.T, line live.Timeline) {
	t.Helper()
	ids := map[string]bool{}
	type hold struct {
		from, to time.Time
		row      live.Row
	}
	var holds []hold
	for _, r := range line.Rows {
		require.False(t, ids[r.ID], "%s is there twice", r.Owner)
		ids[r.ID] = true
		var h hold
		for i, s := range r.Spells {
			if i > 0 {
				require.Equal(t, r.Spells[i-1].To, s.From, "there is a gap: %+v", r)
				require.NotEqual(t, live.SpellWaiting, s.Kind, "it waits again: %+v", r)
			}
			require.Equal(t, s.To.IsZero(), s.End == "", "%+v", r)
			require.False(t, !s.To.IsZero() && s.To.Before(s.From), "it ends before it begins: %+v", r)
			if s.Kind == live.SpellWaiting {
				require.Contains(t, []live.SpellEnd{"", live.EndGranted, live.EndLeft}, s.End)
				continue
			}
			if h.from.IsZero() {
				h.from = s.From
			}
			h.to, h.row = s.To, r
		}
		if h.from.IsZero() {
			continue
		}
		if h.to.IsZero() {
			h.to = line.To
		}
		holds = append(holds, h)
		last := r.Spells[len(r.Spells)-1]
		switch c.holds[last.Token][r.Owner] {
		case released:
			require.NotContains(t, []live.SpellEnd{live.EndLost, live.EndTaken, live.EndUnknown}, last.End, "%s has released it: %+v", r.Owner, r)
		case lost:
			require.NotContains(t, []live.SpellEnd{live.EndReleased}, last.End, "%s has lost it: %+v", r.Owner, r)
		}
	}
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	for i, a := range holds {
		for _, b := range holds[i+1:] {
			if a.to.After(b.from) && a.from.Before(b.from) {
				require.False(t, a.row.Mode == priority.Exclusive && b.row.Mode == priority.Exclusive, "two hold it at once:\n%+v\n%+v", a, b)
			}
		}
	}
	for _, m := range line.Marks {
		if m.From != "" && m.Kind != live.MarkPreempt {
			require.True(t, ids[m.From], "unknown sender: %+v", m)
		}
		require.True(t, m.To == "" || ids[m.To], "unknown receiver: %+v", m)
	}
}

func TestHistoryOfABustleIsWhatCanHaveBeen(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := share(t)
			b := h.board()
			harness.Eventually(t, func() bool { return b.Now().Complete }, "the board has seen that there is nothing")
			c := h.bustle(seed, 3, 5, 60)

			// at the end all is quiet, but for what an unclean end leaves, and a request that waits
			last := h.Client()
			h.Hold(h.Lock(last, "scope/0"), "last", harness.At(9))
			h.Acquire(h.Lock(last, "scope/0"), "waits").Queued()
			harness.Eventually(t, func() bool {
				states, _, err := last.Locks(t.Context())
				require.NoError(t, err)
				return reflect.DeepEqual(still(live.NewLocks(states)), still(b.Now().Locks))
			}, "the board agrees with the locks")
			for i := range 3 {
				c.check(t, b.Timeline(fmt.Sprintf("scope/%d", i), time.Time{}, time.Time{}))
			}
		})
	}
}
