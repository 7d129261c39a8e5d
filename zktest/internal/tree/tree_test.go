package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestPathsThatMayNameANode(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b", "/a.b/..c", "/...", "/a b", "/ä€"} {
		require.True(t, ValidPath(path), "%q", path)
	}
	for _, path := range []string{
		"", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/../a", "/a/./b", "/a\x00", "/\x1f", "/\x7f", "/\u009f", "/\ue000", "/\ufff0", "/😀",
		"/\xff",
	} {
		require.False(t, ValidPath(path), "%q", path)
	}
}

func TestWhoIsAllowed(t *testing.T) {
	me, local := Digest("me:secret"), wire.ID{Scheme: "ip", Name: "127.0.0.1"}
	acl := func(perms int32, scheme, name string) []wire.ACL {
		return []wire.ACL{{Perms: perms, ID: wire.ID{Scheme: scheme, Name: name}}}
	}
	for _, c := range []struct {
		acl  []wire.ACL
		want bool
	}{
		{nil, true},
		{OpenACL, true},
		{acl(wire.PermWrite, "world", "anyone"), false},
		{acl(wire.PermRead, "world", "someone"), false},
		{acl(wire.PermAll, me.Scheme, me.Name), true},
		{acl(wire.PermAll, "digest", "me:other"), false},
		{acl(wire.PermAll, "ip", "127.0.0.1"), true},
		{acl(wire.PermAll, "ip", "127.0.0.0/8"), true},
		{acl(wire.PermAll, "ip", "10.0.0.0/8"), false},
		{acl(wire.PermAll, "ip", "::1"), false},
		{acl(wire.PermAll, "ip", "nowhere"), false},
		{append(acl(wire.PermWrite, "world", "anyone"), acl(wire.PermRead, "ip", "127.0.0.1")...), true},
	} {
		require.Equal(t, c.want, Allowed(c.acl, wire.PermRead, []wire.ID{local, me}), "%v", c.acl)
	}
}

// A transaction that fails leaves nothing, whatever it was about to do.
func TestUndoneChangesLeaveNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tree := New()
	tree.TTLs = true
	changes := 0
	for zxid := int64(1); zxid < 1000; zxid++ {
		before := tree.Save()
		counts := describe(tree)
		var effects []Effect
		for range 1 + random.IntN(5) {
			if change, code := tree.Check(randomRequest(random), Caller{Session: random.Int64N(3) + 1}); code == wire.OK {
				effects = append(effects, tree.Apply(change, zxid, zxid*10))
			}
		}
		changes += len(effects)
		if random.IntN(2) == 0 {
			continue // it succeeds
		}
		for i := len(effects) - 1; i >= 0; i-- {
			effects[i].Undo()
		}
		require.Equal(t, before, tree.Save())
		require.Equal(t, counts, describe(tree))
	}
	require.Greater(t, changes, 200)
	require.Greater(t, tree.Len(), 10)

	loaded, err := Load(tree.Save())
	require.NoError(t, err)
	require.Equal(t, describe(tree), describe(loaded))
	require.Equal(t, tree.Save(), tree.Clone().Save())
	require.Equal(t, describe(tree), describe(tree.Clone()))
}

func randomRequest(random *rand.Rand) *wire.Request {
	path := func() string {
		names := []string{"/a", "/b", "/c"}
		var b strings.Builder
		for range 1 + random.IntN(3) {
			b.WriteString(names[random.IntN(len(names))])
		}
		return b.String()
	}
	r := &wire.Request{Path: path(), Version: -1, ACL: OpenACL, TTL: -1, Data: []byte{byte(random.IntN(256))}}
	switch random.IntN(6) {
	case 0, 1:
		r.Op, r.Flags = wire.OpCreate, int32(random.IntN(2))
	case 2:
		r.Op, r.Flags, r.TTL = wire.OpCreateTTL, wire.TTL, 5
	case 3:
		r.Op = wire.OpDelete
	case 4:
		r.Op = wire.OpSetData
	case 5:
		r.Op = wire.OpSetACL
	}
	return r
}

// describe tells what Save does not: who owns what, and what a sweep finds.
func describe(t *Tree) string {
	var b strings.Builder
	for _, session := range t.Owners() {
		fmt.Fprintln(&b, session, len(t.Ephemerals(session)))
	}
	t.Walk("/", func(path string, _ []byte, _ []wire.ACL, stat wire.Stat) { fmt.Fprintln(&b, path, stat) })
	fmt.Fprintln(&b, t.Expired(1<<60))
	return b.String()
}

func TestSequenceCountsCreatesAndStatCountsBoth(t *testing.T) {
	tree := New()
	create := func(path string, flags int32) string {
		change, code := tree.Check(&wire.Request{Op: wire.OpCreate, Path: path, Flags: flags, ACL: OpenACL, TTL: -1}, Caller{Session: 1})
		require.Equal(t, wire.OK, code)
		tree.Apply(change, 1, 1)
		return change.Path
	}
	create("/a", 0)
	require.Equal(t, "/a/n0000000000", create("/a/n", wire.EphemeralSequential))
	create("/a/plain", 0)
	change, code := tree.Check(&wire.Request{Op: wire.OpDelete, Path: "/a/plain", Version: -1}, Caller{})
	require.Equal(t, wire.OK, code)
	tree.Apply(change, 2, 2)
	require.Equal(t, "/a/n0000000002", create("/a/n", wire.PersistentSequential), "deletes do not count, creates of any name do")
	stat, _ := tree.Exists("/a")
	require.Equal(t, int32(2*3-2), stat.Cversion)
}
