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

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A chronicle is what became of the holds of a test, by those who had them.
type chronicle struct {
	mu    sync.Mutex
	holds map[recipes.Token]map[string]deed // by owner: shared ones may be granted at once
}

// A deed is how a hold ended, as far as the one who had it knows.
type deed string

const (
	released deed = "released"
	lost     deed = "lost" // in whatever way
)

func (c *chronicle) note(token recipes.Token, owner string, how deed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds[token] == nil {
		c.holds[token] = map[string]deed{}
	}
	c.holds[token][owner] = how
}

// bustle is a crowd that does at random what can be done with locks: acquire, wait,
// give up, release, preempt, take by force, share, downgrade, extend, break, die.
func (h *house) bustle(seed uint64, scopes, workers, steps int) *chronicle {
	h.t.Helper()
	c := &chronicle{holds: map[recipes.Token]map[string]deed{}}
	op := h.client(func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: "op", Password: "secret"} })
	var work sync.WaitGroup
	for w := range workers {
		client := h.client()
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		work.Go(func() {
			for n := range steps {
				h.step(c, client, op, random, fmt.Sprintf("worker-%d-%d", w, n), fmt.Sprintf("scope/%d", random.IntN(scopes)))
			}
		})
	}
	work.Wait()
	return c
}

func (h *house) step(c *chronicle, client, op *recipes.Client, random *rand.Rand, owner, scope string) {
	background := context.Background()
	l, err := client.PriorityLock(scope)
	if err != nil {
		panic(err)
	}
	r := recipes.Request{
		Owner: owner, Priority: priority.Level(random.IntN(5)), Mode: []priority.Mode{priority.Exclusive, priority.Exclusive, priority.Shared}[random.IntN(3)],
		Forceful: random.IntN(2) == 0, LeaseTimeout: time.Duration(1+random.IntN(60)) * time.Millisecond,
		CleanupTimeout: time.Duration(random.IntN(3)*10) * time.Millisecond,
	}
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
			_, _ = op.Break(background, recipes.BreakRequest{Scope: scope, Token: token, By: "op", Reason: "at random"})
		}
	case 3:
		if id, password := client.Session(); id != 0 && h.server.Expire(background, id, password) == nil {
			if err == nil {
				c.note(token, owner, lost)
			}
			for end := time.Now().Add(soon); grant.Check() == nil && time.Now().Before(end); { // until it hears of that
				<-time.After(time.Millisecond)
			}
			return // it is no more
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
			require.True(t, ids[m.From], "nobody knows who: %+v", m)
		}
		require.True(t, m.To == "" || ids[m.To], "nobody knows whom: %+v", m)
	}
}

func TestHistoryOfABustleIsWhatCanHaveBeen(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			h.t = t
			b := h.board()
			h.shows(b, "that there is nothing", func(n *live.Snapshot) bool { return n.Complete })
			c := h.bustle(seed, 3, 5, 60)

			// at the end all is quiet, but for what an unclean end leaves
			h.nobodyThere()
			viewer := h.client()
			var want []live.Lock
			ctx, stop := context.WithTimeout(t.Context(), soon)
			defer stop()
			for {
				states, _, err := viewer.Locks(ctx)
				require.NoError(t, err)
				want = still(live.NewLocks(states))
				is := still(b.Now().Locks)
				if reflect.DeepEqual(want, is) {
					break
				}
				select {
				case <-time.After(gap):
				case <-ctx.Done():
					require.Equal(t, want, is)
				}
			}
			for i := range 3 {
				c.check(t, b.Timeline(fmt.Sprintf("scope/%d", i), time.Time{}, time.Time{}))
			}
		})
	}
}
