package lock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode/znodetest"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// These targets put anything into the nodes that the recipes read. What is
// accepted is written again as it was read; what is refused gets a message of
// one line.

func FuzzContenderRecord(f *testing.F) {
	c := unconnected(f)
	rec := newRecord(c, Request{Identity: priority.Identity{Owner: "reindex"}, Terms: priority.Terms{Priority: 40, LeaseTimeout: time.Minute, MinRuntime: time.Second, WaitingTimeout: new(time.Duration(0))}, Override: &Mark{ID: "a", By: "b"}, Under: []string{"x"}})
	f.Add(rec.encode(), int64(1000), int64(7))
	rec.Granted = true
	rec.ask(askingNote{ID: "a", Reason: priority.Outranked, Grace: 5})
	rec.freeze(&zkclient.Stat{Mzxid: 7, Mtime: 50})
	f.Add(rec.encode(), int64(1000), int64(7))
	for _, text := range []string{
		"", "null", "[]", `"x"`, "5", "{}", `{"format":0}`, `{"format":2}`, `{"format":2,"owner":{"name":"x"},"mode":7}`, `{"format":1,"mode":"update"}`,
		`{"format":1,"shard":{"a":[1, 2]},"Owner":"x","preempt_by":[{"id":"a","hue":"red"}]}`, `{"format":1,"lease_timeout_ms":9223372036854775807,"granted":true}`,
		`{"format":1,"lease_timeout_ms":-9223372036854775808,"lease_from":-9223372036854775808,"min_runtime_ms":1}`, `{"format":1}{"format":2}`, `{"format":1,"granted":true,"granted_at":1,"token":-1}`,
	} {
		f.Add([]byte(text), int64(1767225600000), int64(9))
	}
	f.Fuzz(func(t *testing.T, data []byte, now, written int64) {
		rec, err := decodeContender(data)
		if err != nil {
			znodetest.CheckRefusalUpTo(t, delayFormat, data, err)
			return
		}
		again, err := decodeContender(rec.encode())
		require.NoError(t, err, "%s", rec.encode())
		require.Equal(t, string(rec.encode()), string(again.encode()))
		kept(t, data, rec.encode(), contenderFields)

		// as a holder, and as one who waits for it, see it
		stat := &zkclient.Stat{Mtime: written, Mzxid: written, Ctime: written, EphemeralOwner: 1}
		lease := rec.leaseLeft(stat, now)
		require.GreaterOrEqual(t, lease, time.Duration(0))
		require.LessOrEqual(t, lease, max(0, znode.Milliseconds(rec.LeaseTimeout)))
		least := rec.remaining(stat, now).MinRuntimeLeft
		require.GreaterOrEqual(t, least, time.Duration(0))
		require.LessOrEqual(t, least, lease)
		told := rec.contender(child{guid: "x"}, stat)
		if rec.LeaseTimeout > 0 {
			require.Positive(t, told.LeaseTimeout)
		}

		// as those see it who write it for its owner: nothing else is lost, and
		// what a write means stays
		rec.Granted = true
		token, from := rec.token(stat), rec.grantedAt(stat)
		rec.freeze(stat)
		rec.ask(askingNote{ID: "fuzz", Reason: priority.Outranked})
		require.True(t, rec.withdraw("fuzz"))
		others, err := decodeContender(rec.encode())
		require.NoError(t, err)
		later := &zkclient.Stat{Mtime: stat.Mtime + 1, Mzxid: stat.Mzxid + 1}
		if stat.Mzxid != 0 {
			require.Equal(t, token, others.token(later))
		}
		if stat.Mtime != 0 {
			require.Equal(t, from, others.grantedAt(later))
		}
		kept(t, data, rec.encode(), contenderFields)
	})
}

// kept checks that members which this program does not know came through.
func kept(t *testing.T, before, after []byte, known []string) {
	t.Helper()
	was, is := unknownIn(before, known), unknownIn(after, known)
	require.Len(t, is, len(was))
	for name, value := range was {
		require.JSONEq(t, string(value), string(is[name]), "%q", name)
	}
}

func FuzzLockRecord(f *testing.F) {
	f.Add(soleHolder(znode.NewGUID()))
	f.Add(lockRecord{Format: 1, Holders: []string{"a", "b"}, Evicted: []evictionNote{{ID: "x", Owner: "o", By: "b", Reason: priority.LeaseExpired, Override: &Mark{ID: "m"}, At: 5}}}.encode())
	for _, text := range []string{`{"format":2,"delays":[{"id":"x","delay_ms":1000,"ended":{}},{"delay_ms":-1},{"delay_ms":9223372036854775807,"ended":{"at":-9223372036854775808}}]}`, "", "{", "null", `{"format":1}`, `{"format":1,"holders":null,"evicted":[null,{}]}`, `{"format":3,"holders":{}}`, `{"format":3,"holders":["a"],"open":true}`, `{"format":4,"holders":{}}`, `{"format":1,"holders":[1]}`, `{"format":1e0}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := decodeLock(data)
		if err != nil {
			znodetest.CheckRefusalUpTo(t, openFormat, data, err)
			return
		}
		again, err := decodeLock(g.encode())
		require.NoError(t, err)
		require.Equal(t, g.encode(), again.encode())
		require.LessOrEqual(t, len(g.evict(evictionNote{ID: "new"})), maxEvictions+1)
		require.LessOrEqual(t, len(g.news(1767225600000)), len(g.Evicted))
		require.Len(t, g.with("me", nil).Holders, len(g.Holders)+1)
		stat := &zkclient.Stat{Mtime: 1767225600000, Mzxid: 7}
		carried := lockRecord{Delays: g.carry(stat, nil)}
		require.LessOrEqual(t, len(carried.Delays), len(g.Delays))
		later, err := decodeLock(carried.encode())
		require.NoError(t, err)
		for _, n := range later.carry(&zkclient.Stat{Mtime: 1767225600001, Mzxid: 8}, nil) {
			require.NotNil(t, n.Ended)
			require.True(t, n.comparable(stat) || n.comparable(&zkclient.Stat{Mtime: 1767225600001, Mzxid: 8}))
			n.describe()
		}
		for _, e := range g.Evicted {
			require.NotEmpty(t, e.loss("a").Error())
			require.True(t, e.same(e))
			e.eviction()
		}
	})
}

func FuzzNames(f *testing.F) {
	guid := znode.NewGUID()
	for _, name := range []string{
		contenderName(7, priority.Shared, guid) + "-2147483648", contenderName(0, priority.Exclusive, guid) + "0000000001", contenderName(0, priority.Exclusive, guid) + "+000000001",
		contenderName(0, priority.Exclusive, guid) + "-000000000",
		"a-0000000012", "a--000000012", "0000000012", "cluster%2Forders", "%2E.", "zookeeper", "%7Aookeeper", "é", "a%", "scratch-" + guid, "",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if c, ok := parseChild(name); ok {
			require.Equal(t, name, contenderName(c.level(), c.mode, c.guid)+znodetest.SequenceName(c.place.Sequence))
		}
		if scope, ok := znode.UnescapeScope(name); ok {
			again, err := znode.EscapeScope(scope)
			require.NoError(t, err)
			require.Equal(t, name, again)
		}
		if escaped, err := znode.EscapeScope(name); err == nil {
			back, ok := znode.UnescapeScope(escaped)
			require.True(t, ok)
			require.Equal(t, name, back)
			require.NotContains(t, escaped, "/")
			require.NoError(t, zkclient.CheckOurs("path", lockPath("/r", escaped)))
		} else {
			require.NotEmpty(t, err.Error())
		}
	})
}

// Whatever the numbers, all who see the same nodes find the same order.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2}, uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0x80, 0, 0, 1}, uint8(1))
	f.Add([]byte{0, 0, 0, 0, 0x40, 0, 0, 0, 0x80, 0, 0, 0, 0xc0, 0, 0, 0}, uint8(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, turn uint8) {
		var names []string
		for i := 0; i+4 <= len(data) && i < 4*64; i += 4 {
			n := int32(uint32(data[i])<<24 | uint32(data[i+1])<<16 | uint32(data[i+2])<<8 | uint32(data[i+3]))
			guid := strings.Repeat("0", znode.GUIDLength-2) + string("0123456789abcdef"[i/4%16]) + string("0123456789abcdef"[i/64])
			names = append(names, contenderName(priority.Level(data[i+3]&1), priority.Exclusive, guid)+znodetest.SequenceName(n))
		}
		children, _ := parseChildren(names)
		require.Len(t, children, len(names))
		if len(names) == 0 {
			return
		}
		k := int(turn) % len(names)
		names = slices.Concat(names[k:], names[:k])
		if turn&1 == 1 {
			slices.Reverse(names)
		}
		again, _ := parseChildren(names)
		require.Equal(t, children, again)
		for i := 1; i < len(children); i++ {
			require.GreaterOrEqual(t, children[i-1].level(), children[i].level())
		}
	})
}
