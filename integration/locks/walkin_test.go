package locks

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// open lets two readers have the lock: from then on others may walk in. The lock node is
// that of the scope "users".
func (h *house) open() (readers []*user, lockNode string) {
	h.t.Helper()
	for i := range 2 {
		readers = append(readers, h.hold(h.lock(h.client()), fmt.Sprint("opener ", i), sharing))
	}
	return readers, h.lockNode(readers[0].grant.ID())
}

// walker has somebody walk in.
func (h *house) walker(c *recipes.Client, owner string, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	u := h.hold(h.lock(c), owner, append([]func(*recipes.Request){sharing}, change...)...)
	require.Contains(h.t, path.Base(h.node(u.grant.ID())), "-w-")
	return u
}

// version is that of a node.
func version(t testing.TB, shell *zk.Conn, node string) int32 {
	t.Helper()
	_, stat, err := shell.Get(node)
	require.NoError(t, err)
	return stat.Version
}

func TestReadersThatWalkInLeaveTheLockNodeAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, node := h.open()
	shell := h.shell()
	before := version(t, shell, node)

	// when others come and go, also after those who have opened it
	var all sync.WaitGroup
	for i := range 3 {
		l := h.lock(h.client())
		all.Go(func() {
			for n := range 40 {
				u := h.hold(l, fmt.Sprintf("reader %d.%d", i, n), sharing)
				u.release()
			}
		})
	}
	for _, u := range openers {
		u.release()
	}
	all.Wait()

	// then nobody has written the lock node, and the next one finds it open
	require.Equal(t, before, version(t, shell, node))
	last := h.walker(h.client(), "last")
	require.Equal(t, []string{"last"}, owners(h.state(h.client()).Holders))
	require.Equal(t, before, version(t, shell, node))

	// and a writer that comes then waits for that one alone, and has a later token
	w := h.ask(h.lock(h.client()), "writer")
	w.queued()
	w.waits()
	require.Greater(t, version(t, shell, node), before)
	token := last.token()
	last.release()
	require.Greater(t, w.token(), token)
}

func TestTokensOfReadersThatWalkInGrow(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, _ := h.open()
	last := max(openers[0].token(), openers[1].token())
	a, b := h.client(), h.client()
	for i := range 5 {
		for _, c := range []*recipes.Client{a, b} {
			u := h.walker(c, fmt.Sprint("reader ", i))
			require.Greater(t, u.token(), last)
			last = u.token()
			u.release()
		}
	}
}

// They are seen as holders, and hear like others.
func TestReadersThatHaveWalkedInAreAskedToGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, _ := h.open()
	readers := append(openers, h.walker(h.client(), "first", cleanup(time.Hour)), h.walker(h.client(), "second", cleanup(time.Hour)))
	require.ElementsMatch(t, []string{"opener 0", "opener 1", "first", "second"}, owners(h.state(h.client()).Holders))

	w := h.ask(h.lock(h.client()), "w", at(5))
	for _, r := range readers {
		require.Equal(t, "w", await[recipes.PreemptAsked](t, r.told).By.Owner)
	}
	for _, r := range readers {
		w.waits()
		r.release()
	}
	w.granted()
}

func TestForcefulWriterTakesOverFromReadersThatHaveWalkedIn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, _ := h.open()
	readers := append(openers, h.walker(h.client(), "first"), h.walker(h.client(), "second"))

	w := h.ask(h.lock(h.client()), "w", at(5), forceful)
	w.granted()
	require.Len(t, await[recipes.TookOver](t, w.told).From, 4)
	for _, r := range readers {
		lost := await[recipes.Lost](t, r.told)
		require.Equal(t, recipes.LossTaken, lost.Err.Reason)
		require.Equal(t, "w", lost.Err.By)
	}
	require.Equal(t, []string{"w"}, owners(h.state(h.client()).Holders))
}

func TestReaderThatHasWalkedInEndsInEveryWay(t *testing.T) {
	t.Parallel()
	ends := map[string]func(h *house, mortal *recipes.Client, u *user){
		"its session expires": func(h *house, mortal *recipes.Client, u *user) {
			h.expire(mortal)
			require.Equal(h.t, recipes.LossSession, await[recipes.Lost](h.t, u.told).Err.Reason)
		},
		"an operator breaks its hold": func(h *house, _ *recipes.Client, u *user) {
			op := h.client(func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: "op", Password: "secret"} })
			_, err := op.Break(h.t.Context(), recipes.BreakRequest{Scope: "users", Token: u.token(), By: "ann", Reason: "stuck"})
			require.NoError(h.t, err)
			require.Equal(h.t, recipes.LossBroken, await[recipes.Lost](h.t, u.told).Err.Reason)
		},
		"an administrator deletes its node": func(h *house, _ *recipes.Client, u *user) {
			require.NoError(h.t, h.shell().Delete(h.node(u.grant.ID()), -1))
			require.Equal(h.t, recipes.LossDeleted, await[recipes.Lost](h.t, u.told).Err.Reason)
		},
		"it leaves": func(_ *house, _ *recipes.Client, u *user) { u.release() },
	}
	for how, end := range ends {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a writer waits: %t", how, waits), func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				openers, _ := h.open()
				mortal := h.client()
				u, other := h.walker(mortal, "mortal"), h.walker(h.client(), "other")
				for _, o := range openers {
					o.release()
				}
				var w *user
				if waits {
					w = h.ask(h.lock(h.client()), "w")
					w.queued()
				}
				end(h, mortal, u)

				// then the other one holds on, and the writer comes after that
				if !waits {
					w = h.ask(h.lock(h.client()), "w")
					w.queued()
				}
				w.waits()
				require.NoError(t, other.grant.Check())
				require.Equal(t, []string{"other"}, owners(h.state(h.client()).Holders))
				other.release()
				w.granted()
			})
		}
	}
}

// It shares the lock already.
func TestReaderThatHasWalkedInIsDowngradedForNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	_, node := h.open()
	shell := h.shell()
	before := version(t, shell, node)
	u := h.walker(h.client(), "walker")
	require.NoError(t, u.grant.Downgrade(t.Context()))
	require.NoError(t, u.grant.Check())
	require.Len(t, h.state(h.client()).Holders, 3)
	u.release()
	require.Equal(t, before, version(t, shell, node))
}

// What has to be written into the lock node cannot be said by one that walks in.
func TestWhoMustBeNamedDoesNotWalkIn(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*recipes.Request){
		"lock-delay": delayed(10 * time.Minute),
		"hold id":    func(r *recipes.Request) { r.Hold = "hold" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			openers, node := h.open()
			walked := h.walker(h.client(), "walked")
			mortal := h.client()
			named := h.hold(h.lock(mortal), "named", sharing, change)
			require.Contains(t, path.Base(h.node(named.grant.ID())), "-s-")
			data, _, err := h.shell().Get(node)
			require.NoError(t, err)
			require.Contains(t, string(data), named.grant.ID())
			require.NotContains(t, string(data), `"open"`)

			// then it ends without a word: the others hold on, and a lock-delay is minded
			h.expire(mortal)
			require.Eventually(t, func() bool { return len(h.state(h.client()).Holders) == 3 }, soon, 5*time.Millisecond)
			for _, u := range append(openers, walked) {
				require.NoError(t, u.grant.Check())
				u.release()
			}
			w := h.ask(h.lock(h.client()), "writer", try)
			w.ended()
			require.Equal(t, what == "lock-delay", recipes.IsNotAcquired(w.err), "%v", w.err)
		})
	}
}

// A lock that was left open, and then removed, is another one.
func TestLockThatWasLeftOpenIsRemoved(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, node := h.open()
	ann := h.client()
	h.walker(ann, "ann").release() // she remembers
	for _, u := range openers {
		u.release()
	}
	shell := h.shell()
	before := version(t, shell, node)
	_, root, err := shell.Get(h.root)
	require.NoError(t, err)
	_, err = shell.Multi(&zk.SetDataRequest{Path: h.root, Version: root.Version}, &zk.DeleteRequest{Path: node, Version: -1})
	require.NoError(t, err)

	// given a writer that has the new one at the version that she remembers
	bob := h.lock(h.client())
	for version := int32(0); version < before-1; version++ {
		h.hold(bob, "bob").release()
	}
	w := h.hold(bob, "bob")
	require.Equal(t, before, version(t, shell, node))

	// then she does not hold beside it
	again := h.ask(h.lock(ann), "ann again", sharing)
	again.queued()
	again.waits()
	w.release()
	again.granted()
}

// Whoever comes to a lock that was left open has it: alone, or for all.
func TestLockThatWasLeftOpenIsTaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*recipes.Request){"a writer": func(*recipes.Request) {}, "a reader": sharing, "a reader with a delay": func(r *recipes.Request) {
		sharing(r)
		r.LockDelay = time.Millisecond
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			openers, node := h.open()
			knows := h.client()
			h.walker(knows, "walker").release()
			for _, u := range openers {
				u.release()
			}
			u := h.hold(h.lock(h.client()), "next", change, try)
			later := h.ask(h.lock(knows), "reader", sharing)
			if name == "a writer" {
				later.waits()
			} else {
				later.granted()
			}
			u.release()
			later.granted()
			later.release()
			data, _, err := h.shell().Get(node)
			require.NoError(t, err)
			require.Equal(t, name == "a reader", strings.Contains(string(data), `"open"`), string(data))
		})
	}
}

// A live view shows them, too, though the lock node does not change.
func TestLiveViewShowsReadersThatWalkIn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.open()
	b := h.board()
	shows := func(who ...string) {
		t.Helper()
		h.shows(b, strings.Join(who, ", "), func(n *live.Snapshot) bool {
			return slices.ContainsFunc(n.Locks, func(l live.Lock) bool {
				var names []string
				for _, c := range l.Holders {
					names = append(names, c.Owner)
				}
				slices.Sort(names)
				return l.Scope == "users" && slices.Equal(names, who)
			})
		})
	}
	shows("opener 0", "opener 1")
	u := h.walker(h.client(), "walker")
	shows("opener 0", "opener 1", "walker")
	u.release()
	shows("opener 0", "opener 1")
}

// A writer that shares its lock has the name of one that does not: readers walk in when it has left.
func TestReadersOpenALockThatAWriterHasSharedWhenThatHasLeft(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	w := h.hold(h.lock(h.client()), "writer", lease(time.Hour))
	require.NoError(t, w.grant.Downgrade(t.Context()))
	var named []*user
	for i := range 2 {
		u := h.hold(h.lock(h.client()), fmt.Sprint("beside the writer ", i), sharing)
		require.NotContains(t, path.Base(h.node(u.grant.ID())), "-w-")
		named = append(named, u)
	}
	w.release()
	opener := h.hold(h.lock(h.client()), "opener", sharing)
	walker := h.walker(h.client(), "walker")
	require.Len(t, h.state(h.client()).Holders, 4)

	// then the next writer waits for all of them
	next := h.ask(h.lock(h.client()), "next")
	for _, u := range append(named, opener, walker) {
		next.waits()
		require.NoError(t, u.grant.Check())
		u.release()
	}
	next.granted()
}

// Its lease is its own, and so is what it is asked for.
func TestReaderThatHasWalkedInExtendsItsLease(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	openers, node := h.open()
	before := version(t, h.shell(), node)
	u := h.walker(h.client(), "walker", lease(time.Hour))
	token := u.token()
	require.NoError(t, u.grant.Extend(t.Context(), 3*time.Hour))
	for _, o := range openers {
		o.release()
	}
	state := h.state(h.client())
	require.Equal(t, []string{"walker"}, owners(state.Holders))
	require.Equal(t, 3*time.Hour, state.Holders[0].LeaseTimeout)
	require.Greater(t, state.Holders[0].LeaseLeft, 2*time.Hour)
	require.Equal(t, token, state.Holders[0].Token)
	require.Equal(t, before, version(t, h.shell(), node))

	// while it is asked to go, it may not
	w := h.ask(h.lock(h.client()), "w", at(5))
	await[recipes.PreemptAsked](t, u.told)
	require.Error(t, u.grant.Extend(t.Context(), 4*time.Hour))
	u.release()
	w.granted()
}

// The answer to each request of a writer is lost in turn, that to its shutting the lock included.
func TestWriterThatComesToAnOpenLockGoesOnWhenAnyAnswerIsLost(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &tripwire{}
	mine := h.client(through(wire))
	require.NoError(t, h.warm(mine))
	id, _ := mine.Session()
	steps := 0
	for tripped := true; tripped; steps++ {
		openers, node := h.open()
		walker := h.walker(h.client(), "walker")
		for _, o := range openers {
			o.release()
		}
		wire.set(afterRequest, steps, wire.cut)
		w := h.ask(h.lock(mine), "writer")
		w.queued()
		w.waits()
		late := h.ask(h.lock(h.client()), "late", sharing)
		late.waits()
		walker.release()
		w.granted()
		tripped = wire.unset()
		data, _, err := h.shell().Get(node)
		require.NoError(t, err)
		require.NotContains(t, string(data), `"open"`, "answer %d is lost", steps)
		w.release()
		late.granted()
		late.release()
		h.nobodyThere()
	}
	require.Greater(t, steps, 4)
	again, _ := mine.Session()
	require.Equal(t, id, again)
}
