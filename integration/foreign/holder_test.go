package foreign

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// holders writes G.
func (h *house) holders(guids ...string) {
	h.t.Helper()
	h.write(h.node(), `{"format":1,"holders":["`+strings.Join(guids, `","`)+`"]}`)
}

// Nobody can tell how long such a holder may stay, nor ask it to go.
func TestHolderThatSaysNothingIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		data string
		acl  []zk.ACL
		says string
	}{
		"garbage":  {"garbage", world, "unreadable record"},
		"newer":    {`{"format":9,"owner":7}`, world, "has format 9, this program knows 2; upgrade it"},
		"not ours": {valid, zk.DigestACL(zk.PermAll, "ann", "x"), "the ACL of"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			node := h.node() + "/" + request(0, 1)
			h.put(node, c.data, zk.FlagEphemeral, c.acl)
			h.holders(guid(1))

			err := h.ask(h.client(), "waiter").refused()

			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, node)
			refused := h.ask(h.client(), "try", try).refused()
			require.True(t, recipes.IsNotAcquired(refused) || errors.As(refused, new(*recipes.AccessError)), "%v", refused)
			data, stat := h.read2(node)
			require.Equal(t, c.data, data)
			require.Zero(t, stat.Version)

			// when an operator deletes it, the lock is free
			require.NoError(t, h.shell.Delete(node, -1))
			h.works()
		})
	}
}

// read2 reads as whoever made the node.
func (h *house) read2(path string) (string, *zk.Stat) {
	h.t.Helper()
	require.NoError(h.t, h.shell.AddAuth("digest", []byte("ann:x")))
	return h.read(path)
}

func TestHolderThatSaysNothingIsShownAndGoesWithItsSession(t *testing.T) {
	h := newHouse(t)
	node := h.node() + "/" + request(3, 1)
	h.put(node, "garbage", zk.FlagEphemeral, world)
	h.holders(guid(1))

	state := h.state()
	require.Len(t, state.Holders, 1)
	require.Equal(t, "<unreadable>", state.Holders[0].Owner)
	require.Contains(t, state.Holders[0].Message, node)
	require.NotZero(t, state.Holders[0].Token)
	require.Empty(t, state.Foreign)

	waiter := h.ask(h.client(), "waiter")
	await[recipes.Queued](waiter)
	require.NoError(t, h.shell.Delete(node, -1))
	waiter.granted()
}

// G may name whom it likes: who has no node counts for nothing.
func TestUnknownHoldersCountForNothing(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = guid(i)
	}
	for what, g := range map[string][]string{"one": {guid(1)}, "ten thousand": many, "no guids": {"", "x", "../..", "\\u0000"}} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			h.holders(g...)
			h.works()
			data, _ := h.read(h.node())
			require.Less(t, len(data), 100, "the first grant forgets them")
		})
	}
}

var brokenG = map[string]string{"garbage": "\xff\x00garbage, and long enough to be looked at by a newcomer", "short": "x", "another type": `[1]`, "null": "null", "other fields": `{"format":1,"holders":{"a":"b"},"evicted":"who was evicted, and when"}`, "no format": `{}`}

func TestLockNodeThatIsOverwrittenIsRestoredFromTheRequests(t *testing.T) {
	for what, data := range brokenG {
		t.Run(what+", idle", func(t *testing.T) {
			h := newHouse(t)
			h.write(h.node(), data)
			require.NotEmpty(t, h.state().Damage)
			h.works()
			require.Empty(t, h.state().Damage)
		})
		t.Run(what+", held", func(t *testing.T) {
			h := newHouse(t)
			holder, waiter := h.hold(h.client(), "holder"), h.ask(h.client(), "waiter")
			await[recipes.Queued](waiter)

			h.write(h.node(), data)

			// then the holder still holds, for newcomers and for those who wait
			require.Equal(t, "holder", h.state().Holders[0].Owner)
			newcomer := h.ask(h.client(), "newcomer")
			await[recipes.Queued](newcomer)
			refused := h.ask(h.client(), "try", try).refused()
			require.True(t, recipes.IsNotAcquired(refused), "%v", refused)
			require.NoError(t, holder.grant.Check())
			waiter.waits()
			holder.release()
			waiter.granted()
			waiter.release()
			newcomer.granted()
		})
		t.Run(what+", shared", func(t *testing.T) {
			h := newHouse(t)
			a, b := h.hold(h.client(), "a", reader), h.hold(h.client(), "b", reader)
			writer := h.ask(h.client(), "writer")
			await[recipes.Queued](writer)

			h.write(h.node(), data)

			a.release() // it cannot tell whether it is the last, and leaves
			require.NoError(t, b.grant.Check())
			writer.waits()
			b.release()
			writer.granted()
		})
		t.Run(what+", broken by an operator", func(t *testing.T) {
			h := newHouse(t)
			holder := h.hold(h.client(), "holder")
			token, err := holder.grant.Token(t.Context())
			require.NoError(t, err)
			h.write(h.node(), data)
			require.NoError(t, holder.grant.Downgrade(t.Context()))
			require.Empty(t, h.state().Damage)
			h.write(h.node(), data)
			require.Equal(t, token, h.state().Holders[0].Token)
		})
	}
}

// A newer program's G is not overwritten, as long as it is longer than what a
// grant writes: see docs/protocol.md.
func TestNewerLockNodeIsRefusedAndStays(t *testing.T) {
	h := newHouse(t)
	newer := fmt.Sprintf(`{"format":9,"holders":[],"delay":{"until":"%060d"}}`, 1)
	h.write(h.node(), newer)
	for _, change := range []func(*recipes.Request){try, boss, reader} {
		err := h.ask(h.client(), "old program", change).refused()
		var bad *recipes.RecordError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, h.node(), bad.Node)
		require.Equal(t, 9, bad.Format)
	}
	got, _ := h.read(h.node())
	require.Equal(t, newer, got)
	require.Contains(t, h.state().Damage, "upgrade")
}

func TestForeignScopesAndBucketsDoNotHideTheOthers(t *testing.T) {
	h := newHouse(t)
	hold := h.hold(h.client(), "holder")
	h.put(h.root+"/locks/zz/scope", "", 0, world)
	h.put(h.root+"/locks/bucket/a%2", "", 0, world)
	h.put(h.node()+"-in-the-wrong-bucket", "", 0, world)
	h.put(h.root+"/locks/00/%", "", 0, world)
	h.put(h.lockNode("closed"), "", 0, zk.DigestACL(zk.PermAll, "ann", "x"))
	h.put(h.lockNode("broken"), "garbage", 0, world)

	states, _, err := h.client().Locks(t.Context())

	require.NoError(t, err)
	var scopes []string
	for _, s := range states {
		scopes = append(scopes, s.Scope)
	}
	require.Equal(t, []string{"broken", "closed", scope}, scopes)
	require.Contains(t, states[0].Damage, h.lockNode("broken"))
	require.Contains(t, states[1].Damage, "ACL")
	require.Empty(t, states[2].Damage)
	require.Equal(t, hold.grant.ID(), states[2].Holders[0].ID)
}
