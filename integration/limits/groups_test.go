package limits

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// Given very many locks that are spread over many participants, when one leaves or
// comes, then no lock moves but those that have to, no two hold one, and few
// writes do it, however many locks there are.
func TestGroupOfManyLocksAndParticipants(t *testing.T) {
	h := newAlone(t)
	locks, participants := size(500, 10_000), size(20, 100)
	share := locks / participants
	c := newClub(h, group.Spec{Name: "club", Locks: group.NumberedLocks("club", locks), CleanupTimeout: soon})

	c.watch("all join", func() { all(participants, c.join) })

	gone := c.watch("one leaves", func() { c.leave(participants / 2) })
	require.Equal(t, map[int]int{participants / 2: share}, gone.from, "the locks of the members that left, and no others")

	came := c.watch("one joins", func() { c.join(participants) })
	require.Equal(t, map[int]int{participants: share}, came.to, "its share, and nothing between others")

	decider := c.decider()
	gone = c.watch("the one that decides leaves", func() { c.leave(decider) })
	require.Equal(t, map[int]int{decider: share}, gone.from)

	for _, change := range []change{gone, came} {
		require.LessOrEqual(t, change.writes, int64(4*participants), "not one for each lock")
	}
	c.end()
	h.eventually(func() bool { return h.requests() == 0 }, "somebody is left")
}

// A club is a group of which is known at every moment who is inside of what.
type club struct {
	*fixture
	spec  group.Spec
	shell *zk.Conn

	mu      sync.Mutex
	members map[int]*group.Member
	inside  map[string]int // who, by lock
	has     map[int]int    // how many locks, by participant
	round   group.RoundDone
	decides int
	news    chan struct{}
}

func newClub(h *fixture, spec group.Spec) *club {
	return &club{
		fixture: h, spec: spec, shell: h.Shell(), members: map[int]*group.Member{},
		inside: map[string]int{}, has: map[int]int{}, news: make(chan struct{}, 1),
	}
}

func (c *club) join(i int) {
	g, err := group.New(c.client().Client, c.spec, group.Options{Notify: func(n group.Notice) { c.told(i, n) }})
	if err == nil {
		var m *group.Member
		if m, err = g.Join(c.Context(), fmt.Sprint("participant-", i), visitor{c, i}); err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.members[i] = m
			c.poke()
			return
		}
	}
	c.Errorf("participant %d has not joined: %v", i, err)
}

func (c *club) leave(i int) {
	c.mu.Lock()
	m := c.members[i]
	delete(c.members, i)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := m.Leave(ctx); err != nil {
		c.Errorf("participant %d has not left: %v", i, err)
	}
}

// end has all leave.
func (c *club) end() {
	c.mu.Lock()
	there := maps.Clone(c.members)
	c.mu.Unlock()
	var crowd sync.WaitGroup
	for i := range there {
		crowd.Go(func() { c.leave(i) })
	}
	crowd.Wait()
}

func (c *club) told(i int, n group.Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := n.(type) {
	case group.RoundDone:
		c.round = n
		c.poke()
	case group.Controller:
		if n.Gained {
			c.decides = i
		}
	case group.Lost, group.Fault, group.StrategyFailed, group.Panicked, group.CleanupOverrun:
		c.Errorf("participant %d: %+v", i, n)
	}
}

func (c *club) decider() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decides
}

func (c *club) poke() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// spread reports whether all locks are held, and no member has two more than
// another.
func (c *club) spread() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := len(c.spec.Locks) / len(c.members)
	for i := range c.members {
		if n := c.has[i]; n < least || n > least+1 {
			return false
		}
	}
	return len(c.inside) == len(c.spec.Locks)
}

// A change is what it takes until all locks are where they belong.
type change struct {
	from, to map[int]int // how many locks have moved from and to a participant
	writes   int64       // to ZooKeeper, by its own count, sessions included
}

func (c change) moved() (n int) {
	for _, m := range c.to {
		n += m
	}
	return n
}

func (c *club) watch(what string, do func()) change {
	c.Helper()
	c.mu.Lock()
	before, last := maps.Clone(c.inside), c.round.Generation
	c.mu.Unlock()
	packets, zxid, start := c.figures()["zk_packets_sent"], c.zxid(), time.Now()
	do()
	done := time.Since(start)
	for deadline := time.After(soon); !c.spread(); {
		select {
		case <-c.news:
		case <-deadline:
			require.FailNow(c, "the locks are not spread", what)
		}
	}
	took := time.Since(start)
	out := change{from: map[int]int{}, to: map[int]int{}}
	out.writes = c.zxid() - zxid - 1
	c.mu.Lock()
	for lock, now := range c.inside {
		if was, held := before[lock]; held && was != now {
			out.from[was]++
			out.to[now]++
		}
	}
	c.mu.Unlock()
	// the controller is notified when it has seen that all is in place
	c.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.round.Generation > last
	}, "no round")
	data, _, err := c.shell.Get(c.Root + "/groups/" + c.spec.Name + "/assignment")
	require.NoError(c, err)
	c.Logf("%d locks, %d participants; %s: %d locks moved, all in place %v after it began (the call itself took %v), %d writes of ZooKeeper, %d packets; the last round as its controller tells it: %+v; the assignment takes %d KiB",
		len(c.spec.Locks), len(c.members), what, out.moved(), took.Round(time.Millisecond), done.Round(time.Millisecond), out.writes,
		c.figures()["zk_packets_sent"]-packets, c.round, len(data)>>10)
	return out
}

// zxid returns the number of the server's last transaction, by making one.
func (c *club) zxid() int64 {
	c.Helper()
	path, err := c.shell.Create("/zxid-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(c, err)
	_, stat, err := c.shell.Get(path)
	require.NoError(c, err)
	return stat.Czxid
}

// A visitor is one participant of a club.
type visitor struct {
	c *club
	i int
}

func (v visitor) OnLocked(_ context.Context, grant group.LockGrant) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	if other, taken := v.c.inside[grant.Lock]; taken {
		v.c.Errorf("%s is granted to %d while %d is inside", grant.Lock, v.i, other)
	}
	v.c.inside[grant.Lock] = v.i
	v.c.has[v.i]++
	v.c.poke()
}

func (v visitor) OnReleased(_ context.Context, lock string) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	delete(v.c.inside, lock)
	v.c.has[v.i]--
}

func (visitor) OnDropped(context.Context, string) {}
