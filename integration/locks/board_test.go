package locks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// board starts one with a client of its own.
func (h *house) board() *live.Board {
	h.t.Helper()
	c := h.client()
	look, err := c.Lookout(recipes.LookoutOptions{Gap: gap})
	require.NoError(h.t, err)
	b, err := live.New(live.Options{Source: look, Now: c.Now})
	require.NoError(h.t, err)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(ctx) })
	h.t.Cleanup(func() { stop(); work.Wait() })
	return b
}

// shows waits for a snapshot.
func (h *house) shows(b *live.Board, what string, is func(*live.Snapshot) bool) *live.Snapshot {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), soon)
	defer stop()
	for n := range b.Changes(ctx) {
		if is(n) {
			return n
		}
	}
	require.FailNow(h.t, "the board has not shown: "+what, "last: %+v", b.Now().Locks)
	return nil
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

func TestBoardShowsTheTreeOnceItIsQuiet(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	b := h.board()
	var work errgroup.Group
	for i := range 6 {
		c := h.client()
		random := rand.New(rand.NewPCG(11, uint64(i)))
		work.Go(func() error {
			for n := range 30 {
				l, err := c.PriorityLock(fmt.Sprintf("scope/%d", random.IntN(4)))
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+random.IntN(40))*time.Millisecond)
				r := recipes.Request{
					Owner: fmt.Sprintf("worker-%d-%d", i, n), Priority: priority.Level(random.IntN(4)),
					Forceful: random.IntN(2) == 0, Mode: []priority.Mode{priority.Exclusive, priority.Shared}[random.IntN(2)],
				}
				grant, err := l.Acquire(ctx, r)
				cancel()
				if err == nil {
					<-time.After(time.Duration(random.IntN(15)) * time.Millisecond)
					_ = grant.Release(context.Background())
				}
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	last := h.client()
	h.hold(h.scope(last, "scope/0"), "last")
	h.ask(h.scope(last, "scope/0"), "waits").queued()

	states, _, err := last.Locks(t.Context())
	require.NoError(t, err)
	want := still(live.NewLocks(states))
	h.shows(b, "the tree", func(n *live.Snapshot) bool { return n.Complete && reflect.DeepEqual(want, still(n.Locks)) })
	require.Equal(t, want, still(b.Now().Locks))

	// and who is there in the history is who is there
	for _, s := range states {
		var there, known []string
		for _, c := range slices.Concat(s.Holders, s.Waiters) {
			there = append(there, c.ID)
		}
		for _, r := range b.Timeline(s.Scope, time.Time{}, time.Time{}).Rows {
			for i, spell := range r.Spells {
				if i > 0 {
					require.Equal(t, r.Spells[i-1].To, spell.From, "%+v", r)
				}
				require.Equal(t, spell.To.IsZero(), spell.End == "", "%+v", r)
			}
			if r.Spells[len(r.Spells)-1].End == "" {
				known = append(known, r.ID)
			}
		}
		require.ElementsMatch(t, there, known)
	}
}

func TestHistorySaysHowHoldsEnded(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(allSeen)
	b := h.board()
	h.shows(b, "that there is nothing", func(n *live.Snapshot) bool { return n.Complete })
	heldBy := func(owner string, waiting int) {
		h.shows(b, owner+" holds", func(n *live.Snapshot) bool {
			return len(n.Locks) == 1 && len(n.Locks[0].Holders) == 1 && n.Locks[0].Holders[0].Owner == owner && len(n.Locks[0].Waiters) == waiting
		})
	}

	// released, to one that waits; preempted; taken; broken; lost
	ann := h.hold(h.lock(c), "ann")
	bob := h.ask(h.lock(c), "bob", cleanup(time.Minute))
	heldBy("ann", 1)
	ann.release()
	bob.granted()
	heldBy("bob", 0)
	cid := h.ask(h.lock(c), "cid", at(3), cleanup(0))
	h.shows(b, "bob is asked to go", func(n *live.Snapshot) bool {
		return len(n.Locks[0].Holders) == 1 && len(n.Locks[0].Holders[0].PreemptedBy) == 1
	})
	bob.release()
	cid.granted()
	heldBy("cid", 0)
	dan := h.ask(h.lock(c), "dan", at(9), forceful)
	dan.granted()
	heldBy("dan", 0)
	op := h.client(func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: "op", Password: "secret"} })
	_, err := op.Break(t.Context(), recipes.BreakRequest{Scope: "users", Token: dan.token(), By: "op", Reason: "it hangs"})
	require.NoError(t, err)
	h.shows(b, "nobody holds", func(n *live.Snapshot) bool { return n.Locks[0].State == "free" })
	frail := h.client()
	h.hold(h.lock(frail), "eve", delayed(time.Minute))
	heldBy("eve", 0)
	h.expire(frail)
	h.shows(b, "the lock is delayed", func(n *live.Snapshot) bool { return n.Locks[0].State == "delayed" })

	ends := map[string]string{}
	line := b.Timeline("users", time.Time{}, time.Time{})
	for _, r := range line.Rows {
		for _, s := range r.Spells {
			ends[r.Owner] += fmt.Sprintf("%s %s; ", s.Kind, s.End)
		}
	}
	require.Equal(t, "holding released; ", ends["ann"], "handed over")
	require.Equal(t, "waiting granted; holding preempted; leaving preempted; ", ends["bob"])
	require.Contains(t, []string{ // it had no time to clean up: it may be gone before anybody has looked
		"waiting granted; holding preempted; leaving taken; ", "waiting granted; holding taken; ",
	}, ends["cid"])
	require.Equal(t, "waiting granted; holding taken; ", ends["dan"])
	require.Equal(t, "holding lost; ", ends["eve"])
	var marks []string
	for _, m := range line.Marks {
		marks = append(marks, string(m.Kind))
	}
	require.Equal(t, []string{"handover", "preempt", "handover"}, marks[:3], "%+v", line)
	require.Equal(t, []string{"takeover", "break"}, marks[len(marks)-2:])
	var heard []string
	for _, e := range b.Entries(0, 0) {
		heard = append(heard, string(e.Kind))
	}
	for _, kind := range []string{"waiting", "granted", "released", "preempted", "takeover", "break", "lost"} {
		require.Contains(t, strings.Join(heard, " "), kind)
	}
}
