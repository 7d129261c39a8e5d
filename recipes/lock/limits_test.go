package lock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestRequestThatIsTooLongIsRefusedWithWhatIsTooLong(t *testing.T) {
	require.NoError(t, zkclient.Fits(&zkclient.SetDataRequest{Path: "/a", Data: make([]byte, 1_000_000-200)}))
	large := []any{
		&zkclient.CheckVersionRequest{Path: "/root"},
		&zkclient.SetDataRequest{Path: "/a", Data: make([]byte, 400_000)},
		&zkclient.CreateRequest{Path: "/b", Data: make([]byte, 600_000)},
		&zkclient.DeleteRequest{Path: "/c"},
	}
	err := zkclient.Fits(large...)
	var tooLarge *zkclient.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.Equal(t, "/b", tooLarge.Node)
	require.Greater(t, tooLarge.Bytes, tooLarge.Limit)
	require.ErrorContains(t, err, "/b is not written")
	require.ErrorContains(t, err, "jute.maxbuffer")
	require.ErrorContains(t, err, "shorten what is to be written")
	require.True(t, isUnusable(err), "a holder that cannot hand over so much leaves all the same")

	paths := make([]any, 0, 8000)
	for i := range 8000 {
		paths = append(paths, &zkclient.DeleteRequest{Path: fmt.Sprintf("/%0100d", i)})
	}
	require.ErrorAs(t, zkclient.Fits(paths...), &tooLarge, "many small operations are one large request")
}

// Each line of the queue: level and how early it came.
func queueOf(levels ...priority.Level) []child {
	names := make([]string, 0, len(levels))
	for i, level := range levels {
		names = append(names, fmt.Sprintf("%s%010d", contenderName(level, priority.Exclusive, fmt.Sprintf("%024x", i)), i))
	}
	children, _ := parseChildren(names)
	return children
}

func TestFullQueueIsForThoseWhoComeLast(t *testing.T) {
	at := func(level priority.Level) *attempt {
		return &attempt{l: &PriorityLock{scope: "orders", c: unconnected(t, func(c *Config) { c.QueueLimit = 16 })}, req: Request{Terms: priority.Terms{Priority: level}}}
	}
	guid := func(i int) string { return fmt.Sprintf("%024x", i) }
	levels := func(n int, level priority.Level) []priority.Level {
		all := make([]priority.Level, n)
		for i := range all {
			all[i] = level
		}
		return all
	}

	full := queueOf(levels(16, 1)...)
	require.NoError(t, at(1).tooMany(full[:15], ""), "one more fits")
	require.Equal(t, &QueueFullError{Scope: "orders", Length: 16, Ahead: 16, Limit: 16}, at(1).tooMany(full, ""))
	require.NoError(t, at(2).tooMany(full, ""), "it comes before them all")
	require.Equal(t, &QueueFullError{Scope: "orders", Length: 18, Limit: 16}, at(2).tooMany(queueOf(levels(18, 1)...), ""))
	require.NoError(t, at(priority.Emergency).tooMany(queueOf(levels(18, 1)...), ""))

	// of those who have come at once, the last have to go, wherever they stand
	many := queueOf(levels(40, 1)...)
	for i := range 40 {
		err := at(1).tooMany(many, guid(i))
		if i < 16 {
			require.NoError(t, err, "%d", i)
		} else {
			require.Equal(t, &QueueFullError{Scope: "orders", Length: i, Ahead: i, Limit: 16}, err)
		}
	}
	rising := make([]priority.Level, 40) // each comes before all
	for i := range rising {
		rising[i] = priority.Level(i)
	}
	for i := range 40 {
		err := at(rising[i]).tooMany(queueOf(rising...), guid(i))
		if i < 18 {
			require.NoError(t, err, "%d", i)
		} else {
			require.Equal(t, &QueueFullError{Scope: "orders", Length: i, Limit: 16}, err)
		}
	}
}

// Given as many shared holders as there may be, with names and delays that take as
// much as they can, the takeover of all of them is one request that fits.
func TestTakeoverOfAsManyAsMayShareFits(t *testing.T) {
	const root = "/tenants/a/lockkeeper"
	l := &PriorityLock{path: lockPath(root, strings.Repeat("s", 200))}
	worst := func(n int) string { return strings.Repeat("\x01", n) } // six bytes each
	c := unconnected(t)
	var g lockRecord
	var ops []any
	var notes []evictionNote
	for i := range maxSharing {
		guid := fmt.Sprintf("%024x", i)
		rec := newRecord(c, Request{Identity: priority.Identity{Owner: worst(priority.MaxOwner)}, Terms: priority.Terms{Mode: priority.Shared, LockDelay: priority.MaxLockDelay}})
		g = g.with(guid, rec.delayNotes(guid))
		ops = append(ops, &zkclient.DeleteRequest{Path: l.path + "/" + contenderName(1, priority.Shared, guid) + "0000000000"})
		notes = append(notes, evictionNote{
			ID: guid, Owner: rec.Owner, By: worst(priority.MaxOwner), Reason: priority.LeaseExpired, At: time.Now().UnixMilli(),
			Override: &Mark{ID: worst(maxMarkID), By: worst(maxMarkBy), Reason: worst(maxMarkReason)},
		})
	}
	require.Error(t, zkclient.Fits(&zkclient.SetDataRequest{Data: lockRecord{Evicted: notes}.encode()}), "as it is, it does not")
	short := brief(notes)
	require.Len(t, short, maxSharing)
	for i, n := range short {
		require.Equal(t, notes[i].ID, n.ID)
		require.Equal(t, notes[i].Reason, n.Reason)
		require.NotEmpty(t, n.By)
		require.NotEmpty(t, n.Override.ID)
	}
	stat := writtenAt(7000, firstLeader)
	next := lockRecord{Evicted: g.evict(short...), Delays: g.carry(stat, nil)}
	require.Len(t, next.Delays, maxSharing)
	ops = append(ops, &zkclient.CheckVersionRequest{Path: l.path}, &zkclient.SetDataRequest{Path: l.path, Data: next.encode()})
	require.NoError(t, zkclient.Fits(ops...))

	few := notes[:10]
	require.Equal(t, few, brief(few), "of few, all are shown")
}

func TestBeginningOfATextTakesNoMoreThanItMay(t *testing.T) {
	require.Equal(t, "abc", beginning("abc", 3))
	require.Equal(t, "abc", beginning("abcd", 3))
	require.Equal(t, "ab", beginning("abü", 3), "no half characters")
	require.Equal(t, "a", beginning("a<b", 6), "as JSON it takes six bytes")
	require.Equal(t, "a<", beginning("a<b", 7))
	require.Empty(t, beginning("\x00", 5))
}

// As many as may share a lock do: another one is refused, or waits until one of them leaves.
func TestReaderBesideAsManyAsMayShareWaitsForRoom(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	other, l := uncontended(t, server)
	s, err := other.Usable(t.Context())
	require.NoError(t, err)
	rec := newRecord(other, Request{Identity: priority.Identity{Owner: "reader"}, Terms: priority.Terms{Mode: priority.Shared, LeaseTimeout: time.Hour}})
	rec.Granted = true
	var g lockRecord
	var names []string
	for range maxSharing / 100 {
		ops := make([]any, 100)
		for i := range ops {
			guid := znode.NewGUID()
			g.Holders = append(g.Holders, guid)
			ops[i] = &zkclient.CreateRequest{
				Path: l.path + "/" + contenderName(0, priority.Shared, guid), Data: rec.encode(), Acl: other.ACL(), Flags: zkclient.FlagEphemeral | zkclient.FlagSequence,
			}
		}
		replies, _, err := s.Multi(t.Context(), ops...)
		require.NoError(t, err)
		for _, r := range replies {
			names = append(names, r.String)
		}
	}
	_, err = s.Set(t.Context(), l.path, g.encode(), -1)
	require.NoError(t, err)

	l, err = patient(t, server).PriorityLock("users")
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), Request{Terms: priority.Terms{Mode: priority.Shared, AcquireTimeout: new(time.Duration)}})
	require.ErrorAs(t, err, new(*NotAcquiredError))

	granted, queued := make(chan error, 1), make(chan struct{})
	go func() {
		grant, err := l.Acquire(t.Context(), Request{Terms: priority.Terms{Mode: priority.Shared}, Notify: func(n Notice) {
			if _, ok := n.(Queued); ok {
				close(queued)
			}
		}})
		if err == nil {
			err = grant.Release(t.Context())
		}
		granted <- err
	}()
	select {
	case <-queued:
	case err := <-granted:
		require.FailNow(t, "it shares the lock with as many as may", "error: %v", err)
	}
	state, err := other.Lock(t.Context(), "users")
	require.NoError(t, err)
	require.Len(t, state.Holders, maxSharing)
	require.Len(t, state.Waiters, 1)
	require.NoError(t, s.Delete(t.Context(), names[0], -1))
	require.NoError(t, <-granted)
}
