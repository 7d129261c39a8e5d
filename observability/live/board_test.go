package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const users = "users"

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

func TestTimelineOfHandOverPreemptionAndTakeover(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.second(1)
		s.acquire(users, "ann")
		s.second(2)
		s.join(users, "bob", level(1))
		s.second(3)
		s.handOver(users, "ann")
		s.second(4)
		s.join(users, "cid", level(5))
		s.second(5)
		s.ask(users, "bob", "cid", priority.Outranked, 2*time.Second)
		s.second(6)
		s.handOver(users, "bob")
		s.second(7)
		s.join(users, "dan", level(9), forcefully)
		s.ask(users, "cid", "dan", priority.Outranked, time.Second)
		s.second(8)
		s.takeOver(users, "cid", priority.Outranked)
		s.second(9)
		s.join(users, "eve")
		s.second(10)
		s.leave(users, "eve")
		s.second(11)
		s.breakLock(users, "dan", "op", "it hangs")
		s.second(12)
		s.acquire(users, "fay")
		s.second(13)

		require.Equal(t, lines(
			"ann: holding 1s-3s released;",
			"bob: waiting 2s-3s granted; holding 3s-5s preempted; leaving 5s-6s preempted;",
			"cid: waiting 4s-6s granted; holding 6s-7s preempted; leaving 7s-8s taken;",
			"dan: waiting 7s-8s granted; holding 8s-11s taken;",
			"eve: waiting 9s-10s left;",
			"fay: holding 12s-…;",
			"3s handover ann>bob",
			"5s preempt cid>bob",
			"6s handover bob>cid",
			"7s preempt dan>cid",
			"8s takeover dan>cid",
			"11s break >dan",
		), s.story(users))
		require.Equal(t, []string{
			"1s granted users ann has the lock",
			"2s waiting users bob waits, priority 1",
			"3s released users ann has released it; held for 2s",
			"3s granted users bob has the lock after 1s",
			"4s waiting users cid waits, priority 5",
			"5s preempted users bob is preempted by cid (priority 5) at 00:00:05; its grace period ends at 00:00:07; polite: cid waits for the release",
			"6s released users bob released it, preempted by cid; held for 3s",
			"6s granted users cid has the lock after 2s",
			"7s waiting users dan waits, priority 9",
			"7s preempted users cid is preempted by dan (priority 9) at 00:00:07; its grace period ends at 00:00:08; evicted after that, unless it releases first",
			"8s takeover users cid lost it at 00:00:08, to dan, who outranked it, after its grace period",
			"8s granted users dan has the lock after 1s",
			"9s waiting users eve waits, priority 0",
			"10s left users eve left the queue after 1s",
			"11s break users dan lost it at 00:00:11, broken by op: it hangs",
			"12s granted users fay has the lock",
		}, s.events())

		// of a part of it
		at := func(n int) time.Time { return s.start.Add(time.Duration(n) * time.Second) }
		part := s.board.Timeline(users, at(5), at(6))
		require.Equal(t, []string{"bob", "cid"}, ids(part.Rows))
		require.Len(t, part.Marks, 2)
		require.Equal(t, []SpellKind{SpellHolding, SpellLeaving}, []SpellKind{part.Rows[0].Spells[0].Kind, part.Rows[0].Spells[1].Kind})
		require.Empty(t, s.board.Timeline("other", time.Time{}, time.Time{}).Rows)
	})
}

// Several of one process have a node one after the other.
func TestTimelineOfALocalQueue(t *testing.T) {
	t.Parallel()
	play(t, Keep{}, func(t *testing.T, s *script) {
		const users = "users"
		s.second(1)
		s.acquire(users, "ann")
		s.second(2)
		s.passOn(users, "ann", "ben")
		s.second(3)
		s.passOn(users, "ann", "cat")
		s.second(4)
		s.join(users, "dan", level(5))
		s.ask(users, "ann", "dan", priority.Outranked, time.Minute)
		s.second(5)
		s.handOver(users, "ann")
		require.Equal(t, lines(
			"ann: holding 1s-2s released;",
			"ann-102: holding 2s-3s released;",
			"ann-103: holding 3s-4s preempted; leaving 4s-5s preempted;",
			"dan: waiting 4s-5s granted; holding 5s-…;",
			"2s handover ann>ann-102",
			"3s handover ann-102>ann-103",
			"4s preempt dan>ann-103",
			"5s handover ann-103>dan",
		), s.story(users))
		require.Equal(t, []string{
			"1s granted users ann has the lock",
			"2s released users ann has released it; held for 1s",
			"2s granted users ben has the lock",
			"3s released users ben has released it; held for 1s",
			"3s granted users cat has the lock",
		}, s.events()[:5])
		require.Equal(t, "cat", s.board.Timeline(users, time.Time{}, time.Time{}).Rows[2].Owner)
	})
}

func ids(rows []Row) []string {
	var all []string
	for _, r := range rows {
		all = append(all, r.ID)
	}
	return all
}

func TestEndsAreClassifiedByWhatTheTreeTells(t *testing.T) {
	const asked = "leaving 3s-4s "
	for name, c := range map[string]struct {
		do   func(s *script) // one second after ann has got the lock
		want string
	}{
		"released without a waiter": {func(s *script) { s.second(4); s.leave(users, "ann") }, "holding 1s-4s gone;"},
		"handed over":               {func(s *script) { s.second(3); s.join(users, "bob"); s.second(4); s.handOver(users, "ann") }, "holding 1s-4s released;"},
		"taken after its lease": {func(s *script) {
			s.second(4)
			s.join(users, "bob")
			s.takeOver(users, "ann", priority.LeaseExpired)
		}, "holding 1s-4s taken;"},
		"broken": {func(s *script) { s.second(4); s.breakLock(users, "ann", "op", "why") }, "holding 1s-4s taken;"},
		"adopted": {func(s *script) {
			s.second(4)
			s.join(users, "bob")
			s.takeOver(users, "ann", lock.Superseded)
		}, "holding 1s-4s released;"},
		"dead, with a lock delay": {func(s *script) { s.second(4); s.die(users, "ann", time.Minute) }, "holding 1s-4s lost;"},
		"dead while somebody waited": {func(s *script) {
			s.second(2)
			s.join(users, "bob")
			s.second(4)
			s.die(users, "ann", 0)
		}, "holding 1s-4s lost;"},
		"asked for its lease, and gone": {func(s *script) {
			s.askAt3(priority.LeaseExpired)
			s.handOver(users, "ann")
		}, "holding 1s-3s lease_expired; " + asked + "lease_expired;"},
		"asked for a priority, and gone": {func(s *script) {
			s.askAt3(priority.Outranked)
			s.handOver(users, "ann")
		}, "holding 1s-3s preempted; " + asked + "preempted;"},
		"preempted, and gone though the preemption was withdrawn": {func(s *script) {
			s.askAt3(priority.Outranked)
			s.leave(users, "bob")
			s.leave(users, "ann")
		}, "holding 1s-3s preempted; " + asked + "preempted;"},
		"gone while the board did not watch": {func(s *script) {
			s.second(4)
			s.told <- lock.Sighting{Blind: &lock.Blindness{Since: time.Now(), Err: errors.New("refused")}}
			s.leave(users, "ann")
		}, "holding 1s-4s unknown;"},
		"as its own process says": {func(s *script) {
			s.second(4)
			s.board.Observe(s.t.Context(), lockguard.Event{Subject: lockguard.Subject{At: time.Now(), Scope: users, Identity: priority.Identity{Owner: "ann"}, Token: 101}, Notice: lockguard.Lost{
				Err: &lock.LostError{Scope: users, Reason: lock.LossSession},
			}})
			s.leave(users, "ann")
		}, "holding 1s-4s lost;"},
		"as its own process says later": {func(s *script) {
			s.second(4)
			s.leave(users, "ann")
			s.board.Observe(s.t.Context(), lockguard.Event{Subject: lockguard.Subject{At: time.Now(), Scope: users, Identity: priority.Identity{Owner: "ann"}, Token: 101}, Notice: lockguard.Released{
				Cause: &lockguard.LeaseExpiredError{Scope: users},
			}})
		}, "holding 1s-4s lease_expired;"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Keep{}, func(t *testing.T, s *script) {
				s.second(1)
				s.acquire(users, "ann")
				require.Equal(t, lock.Token(101), s.lock(users).Holders[0].Token)
				c.do(s)
				s.settle()
				row, _, _ := strings.Cut(s.story(users), "\n")
				require.Equal(t, "ann: "+c.want, row)
			})
		})
	}
}

// askAt3 lets bob join and preempt ann at the third second, and time pass to the
// fourth.
func (s *script) askAt3(reason priority.Reason) {
	s.second(3)
	s.join(users, "bob", level(9))
	s.ask(users, "ann", "bob", reason, time.Minute)
	s.second(4)
}

func TestWhatWasThereBeforeTheFirstLookIsKnownAndNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, Keep{})
		l := s.lock(users)
		s.grant(l, request("ann"))
		s.wait(time.Second)
		l.Waiters = append(l.Waiters, request("bob", level(3)))
		l.Holders[0].PreemptedBy = []lock.Preemptor{{ID: "bob", Owner: "bob", At: time.Now(), Grace: time.Minute, Reason: priority.Outranked}}
		s.second(60)
		s.tell(users)
		s.settle()
		require.False(t, s.board.Now().Complete)
		s.sync()

		require.True(t, s.board.Now().Complete)
		require.Equal(t, lines("ann: holding 0s-1s preempted; leaving 1s-…;", "bob: waiting 1s-…;", "1s preempt bob>ann"), s.story(users))
		require.Empty(t, s.events())
		require.Equal(t, "1m0s", s.moment(s.board.Timeline(users, time.Time{}, time.Time{}).Known))
	})
}

func TestSnapshotSaysWhoWaitsForWhomAndWhy(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire("a", "ann")
		s.acquire("b", "bob")
		s.second(1)
		s.join("a", "bob-a", under("bob"))
		s.second(2)
		s.join("b", "cid", level(9))
		s.settle()

		n := s.board.Now()
		require.Equal(t, []string{"a", "b"}, scopes(n.Locks))
		a, b := n.Locks[0], n.Locks[1]
		require.Equal(t, "ann", b.RootBlocker.Owner, "bob's work waits for ann")
		require.Equal(t, "ann", a.RootBlocker.Owner)
		require.False(t, a.InCircle)
		require.Equal(t, []string{"ann"}, a.Waiters[0].Blockers)
		require.Equal(t, []string{"bob"}, b.Waiters[0].Blockers)
		require.Equal(t, "held by bob; preempts bob now; will preempt bob at 01:00:00 (end of its lease), then evict it; takes the lock at 01:00:00, unless it is released before", b.Waiters[0].Why)
		require.Contains(t, a.Waiters[0].Why, "does not preempt ann: its priority 0 is not above 0")
		require.Equal(t, s.start.Add(time.Second), a.OldestWait.Local())
		require.Equal(t, Totals{Locks: 2, Held: 2, Holders: 2, Waiters: 2, OldestWait: a.OldestWait, OldestHold: n.Totals.OldestHold}, n.Totals)
		require.Empty(t, n.Waits.Circles)
		require.Len(t, n.Waits.Nodes, 4)
		require.ElementsMatch(t, []GraphEdge{
			{From: "bob-a", To: "ann", Why: inspect.WaitHeld}, {From: "cid", To: "bob", Why: inspect.WaitHeld}, {From: "bob", To: "bob-a", Why: inspect.WaitUnder},
		}, n.Waits.Edges)

		// and when they wait for each other
		s.leave("b", "cid")
		s.join("b", "ann-b", under("ann"))
		s.settle()
		n = s.board.Now()
		require.Equal(t, 1, n.Totals.Circles)
		require.ElementsMatch(t, []string{"ann", "bob", "ann-b", "bob-a"}, n.Waits.Circles[0])
		for _, e := range n.Waits.Edges {
			require.True(t, e.Deadlock, "%+v", e)
		}
		for _, l := range n.Locks {
			require.True(t, l.InCircle)
			require.Nil(t, l.RootBlocker)
		}
		require.NotContains(t, strings.Join(s.events(), "\n"), "deadlock", "it may be made of what was at different moments")
		s.wait(sureAfter)
		events := s.events()
		require.Contains(t, events[len(events)-1], "deadlock")
		require.Contains(t, events[len(events)-1], "lockkeeper locks break")
		s.leave("c", "none")
		s.wait(time.Hour)
		require.Equal(t, 1, strings.Count(strings.Join(s.events(), "\n"), "deadlock"), "it is reported once")
	})
}

func scopes(locks []Lock) []string {
	all := []string{}
	for _, l := range locks {
		all = append(all, l.Scope)
	}
	return all
}

func TestSnapshotIsBlindWhileZooKeeperDoesNotAnswer(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire(users, "ann")
		s.second(5)
		s.told <- lock.Sighting{Blind: &lock.Blindness{Since: time.Now().Add(-time.Second), Err: errors.New("connection refused")}}
		s.settle()
		n := s.board.Now()
		require.Equal(t, &Blind{Since: s.start.Add(4 * time.Second).UTC(), Reason: "connection refused"}, n.Blind)
		require.True(t, n.Complete)
		require.Equal(t, "held", n.Locks[0].State, "what was seen last")
		s.second(9)
		s.sync()
		require.Nil(t, s.board.Now().Blind)
		require.Equal(t, []string{"blind", "sighted"}, kinds(s.board.Entries(1, 0)))
	})
}

func kinds(all []Entry) []string {
	var names []string
	for _, e := range all {
		names = append(names, string(e.Kind))
	}
	return names
}

func TestRunTellsItsCauseAndRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, Keep{})
		synctest.Wait()
		require.ErrorContains(t, s.board.Run(t.Context()), "runs already")
	})
	_, err := New(Options{Now: time.Now})
	require.ErrorContains(t, err, "Source")
	_, err = New(Options{Source: &script{}})
	require.ErrorContains(t, err, "clock")
	_, err = New(Options{Source: &script{}, Now: time.Now, Keep: Keep{Age: -1}})
	require.ErrorContains(t, err, "negative")
}

func TestTimePassesInASnapshotThatIsShownLater(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.second(1)
		s.acquire("held", "ann", holdFor(time.Minute))
		s.acquire("delayed", "bob")
		s.die("delayed", "bob", 10*time.Second)
		s.settle()
		n := s.board.Now()
		require.Equal(t, "delayed", n.Locks[0].State)
		require.Equal(t, 1, n.Totals.Delayed)
		later := n.AsOf(s.start.Add(41 * time.Second))
		require.Equal(t, int64(20_000), later.Locks[1].Holders[0].LeaseLeft)
		require.Equal(t, "free", later.Locks[0].State)
		require.Zero(t, later.Totals.Delayed)
		require.Equal(t, "delayed", n.Locks[0].State, "a snapshot does not change")
		require.Greater(t, n.Locks[1].Holders[0].LeaseLeft, int64(59_000))

		// and the end of a delay, which changes nothing in the tree, is shown
		s.second(12)
		require.Equal(t, "free", s.board.Now().Locks[0].State)
		require.Greater(t, s.board.Now().Version, n.Version)
	})
}

func TestHerdMakesFewSnapshots(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		before := s.board.Now().Version
		for i := range 1000 {
			s.join("lock/0", fmt.Sprintf("w%d", i))
		}
		s.settle()
		require.LessOrEqual(t, s.board.Now().Version, before+2)
		require.Len(t, s.board.Now().Locks[0].Waiters, 1000)
	})
}

func TestCollectedLocksAreForgottenWithTheirHistory(t *testing.T) {
	play(t, Keep{Age: time.Hour, Entries: 5, Heat: 2}, func(t *testing.T, s *script) {
		collect := func(scope string) {
			s.told <- lock.Sighting{State: lock.State{Scope: scope}, Gone: true}
			s.settle()
		}
		for _, scope := range []string{"a", "b", "c"} {
			s.join(scope, scope+"-waiter")
			s.turns(scope, 1)
			s.leave(scope, scope+"-waiter")
		}
		collect("a")
		require.Len(t, s.known("a"), 2, "its history is kept for a while")
		require.Len(t, s.board.Entries(0, 0), 5)
		s.wait(2 * time.Hour)
		collect("b")
		require.Equal(t, []string{"c"}, scopes(s.board.Now().Locks))
		s.board.mu.Lock()
		defer s.board.mu.Unlock()
		require.Len(t, s.board.books, 1)
		require.Len(t, s.board.heat.scopes, 2)
	})
}

func TestObserveTellsWhatTheTreeDoesNot(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire(users, "ann")
		about := lockguard.Subject{At: time.Now(), ID: "req-1", Scope: users, Identity: priority.Identity{Owner: "ann"}, Token: 101}
		for _, e := range []lockguard.Event{
			{Subject: about, Notice: lockguard.Waiting{}},
			{Subject: about, Notice: lockguard.Acquired{}},
			{Subject: about, Notice: lockguard.CleanupStarted{Hooks: 2, Cause: &lockguard.PreemptedError{Scope: users, By: "bob"}}},
			{Subject: about, Notice: lockguard.CleanupDone{Took: time.Second, Err: errors.New("password=hunter2")}},
			{Subject: about, Notice: lockguard.CleanupOverrun{Grace: time.Minute, WorkRunning: true}},
			{Subject: about, Notice: lock.AtRisk{Deadline: time.Now().Add(3 * time.Second)}},
			{Subject: about, Notice: lockguard.Skipped{Job: "nightly", Reason: "overlap"}},
		} {
			s.board.Observe(t.Context(), e)
		}
		all := s.board.Entries(1, 0)
		require.Equal(t, []string{"cleanup", "cleanup", "cleanup", "at_risk", "skipped"}, kinds(all))
		require.True(t, all[0].Here)
		require.Equal(t, "ann", all[0].ID, "by its token")
		require.NotContains(t, fmt.Sprint(all), "hunter2")
		s.settle()
		require.Equal(t, uint64(6), s.board.Now().Entries)
	})
}

func TestTimelineAndHeatComeBackFromJSON(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire(users, "ann")
		s.join(users, "bob")
		s.second(30)
		line := s.board.Timeline(users, time.Time{}, time.Time{})
		text, err := json.Marshal(line)
		require.NoError(t, err)
		require.NotContains(t, string(text), "0001-01-01")
		var again Timeline
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, line, again)
		heat := s.board.Heat(s.start, time.Time{}, 3)
		text, err = json.Marshal(heat)
		require.NoError(t, err)
		var warm Heat
		require.NoError(t, json.Unmarshal(text, &warm))
		require.Equal(t, heat.Slice, warm.Slice)
		require.Len(t, warm.Rows, 1)
	})
}

// Readers may do what they like while sightings come.
func TestBoardIsReadFromEverywhere(t *testing.T) {
	source := &script{told: make(chan lock.Sighting)}
	b, err := New(Options{Source: source, Now: time.Now, Keep: Keep{PerLock: 5, Total: 20, Entries: 20}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(ctx) })
	work.Go(func() {
		for n := range b.Changes(ctx) {
			_, err := json.Marshal(n)
			if err != nil {
				panic(err)
			}
		}
	})
	for range 3 {
		work.Go(func() {
			for ctx.Err() == nil {
				now := b.Now()
				_ = now.AsOf(time.Now())
				_ = b.Timeline(users, time.Time{}, time.Time{})
				_ = b.Heat(time.Now().Add(-time.Minute), time.Time{}, 10)
				_ = b.Entries(now.Entries, 5)
				b.Observe(ctx, lockguard.Event{Subject: lockguard.Subject{Scope: users, Token: 3}, Notice: lock.AtRisk{}})
				runtime.Gosched()
			}
		})
	}
	for i := range 300 {
		holder := lock.Contender{ID: fmt.Sprint("h", i), Identity: priority.Identity{Owner: "ann"}, Token: lock.Token(i), Since: time.Now(), Joined: time.Now()}
		waiter := lock.Contender{ID: fmt.Sprint("w", i), Identity: priority.Identity{Owner: "bob"}, Joined: time.Now(), Position: 1}
		source.told <- lock.Sighting{State: lock.State{Scope: users, At: time.Now(), Holders: []lock.Contender{holder}, Waiters: []lock.Contender{waiter}}}
	}
	source.told <- lock.Sighting{Synced: true}
	require.Eventually(t, func() bool { n := b.Now(); return n.Complete && n.Locks[0].Holders[0].ID == "h299" }, time.Minute, time.Millisecond)
	stop()
	work.Wait()
}
