package foreign

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// holders writes G.
func (h *fixture) holders(guids ...string) {
	h.Helper()
	h.Set(h.node(), []byte(`{"format":1,"holders":["`+strings.Join(guids, `","`)+`"]}`))
}

// It is unknown how long such a holder may stay, and it cannot be preempted.
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
			h := newFixture(t)
			node := h.node() + "/" + request(0, 1)
			h.put(node, c.data, zk.FlagEphemeral, c.acl)
			h.holders(guid(1))

			err := h.ask(h.Client(harness.SessionTimeout(2*time.Second)), "waiter").Refused()

			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, node)
			refused := h.ask(h.Client(), "try", harness.Try).Refused()
			require.True(t, lock.IsNotAcquired(refused) || errors.As(refused, new(*lock.AccessError)), "%v", refused)
			data, stat := h.read2(node)
			require.Equal(t, c.data, data)
			require.Zero(t, stat.Version)

			// when an operator deletes it, the lock is free
			h.Delete(node)
			h.works()
		})
	}
}

// read2 reads as the creator of the node.
func (h *fixture) read2(path string) (string, *zk.Stat) {
	h.Helper()
	require.NoError(h, h.Shell().AddAuth("digest", []byte("ann:x")))
	return h.read(path)
}

func TestHolderThatSaysNothingIsShownAndGoesWithItsSession(t *testing.T) {
	h := newFixture(t)
	node := h.node() + "/" + request(3, 1)
	h.put(node, "garbage", zk.FlagEphemeral, world)
	h.holders(guid(1))

	state := h.state()
	require.Len(t, state.Holders, 1)
	require.Equal(t, "<unreadable>", state.Holders[0].Owner)
	require.Contains(t, state.Holders[0].Message, node)
	require.NotZero(t, state.Holders[0].Token)
	require.Empty(t, state.Foreign)

	waiter := h.ask(h.Client(), "waiter")
	waiter.Queued()
	h.Delete(node)
	waiter.Granted()
}

// G may name whom it likes: who has no node counts for nothing.
func TestUnknownHoldersCountForNothing(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = guid(i)
	}
	for what, g := range map[string][]string{"one": {guid(1)}, "ten thousand": many, "no guids": {"", "x", "../..", "\\u0000"}} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
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
			h := newFixture(t)
			h.Set(h.node(), []byte(data))
			require.NotEmpty(t, h.state().Damage)
			h.works()
			require.Empty(t, h.state().Damage)
		})
		t.Run(what+", held", func(t *testing.T) {
			h := newFixture(t)
			holder, waiter := h.hold(h.Client(), "holder"), h.ask(h.Client(), "waiter")
			waiter.Queued()

			h.Set(h.node(), []byte(data))

			// then the holder still holds, for newcomers and for those who wait
			require.Equal(t, "holder", h.state().Holders[0].Owner)
			newcomer := h.ask(h.Client(), "newcomer")
			newcomer.Queued()
			refused := h.ask(h.Client(), "try", harness.Try).Refused()
			require.True(t, lock.IsNotAcquired(refused), "%v", refused)
			require.NoError(t, holder.Granted().Check())
			waiter.IsPending()
			holder.Release()
			waiter.Granted()
			waiter.Release()
			newcomer.Granted()
		})
		t.Run(what+", shared", func(t *testing.T) {
			h := newFixture(t)
			a, b := h.hold(h.Client(), "a", harness.Shared), h.hold(h.Client(), "b", harness.Shared)
			writer := h.ask(h.Client(), "writer")
			writer.Queued()

			h.Set(h.node(), []byte(data))

			a.Release() // it cannot tell whether it is the last, and leaves
			require.NoError(t, b.Granted().Check())
			writer.IsPending()
			b.Release()
			writer.Granted()
		})
		t.Run(what+", broken by an operator", func(t *testing.T) {
			h := newFixture(t)
			holder := h.hold(h.Client(), "holder")
			token, err := holder.Granted().Token(t.Context())
			require.NoError(t, err)
			h.Set(h.node(), []byte(data))
			require.NoError(t, holder.Granted().Downgrade(t.Context()))
			require.Empty(t, h.state().Damage)
			h.Set(h.node(), []byte(data))
			require.Equal(t, token, h.state().Holders[0].Token)
		})
	}
}

// A newer program's G is not overwritten, as long as it is longer than what a
// grant writes: see docs/protocol.md.
func TestNewerLockNodeIsRefusedAndStays(t *testing.T) {
	h := newFixture(t)
	newer := fmt.Sprintf(`{"format":9,"holders":[],"delay":{"until":"%060d"}}`, 1)
	h.Set(h.node(), []byte(newer))
	for _, change := range []func(*lock.Request){harness.Try, harness.At(9), harness.Shared} {
		err := h.ask(h.Client(), "old program", change).Refused()
		var bad *lock.RecordError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, h.node(), bad.Node)
		require.Equal(t, 9, bad.Format)
	}
	got, _ := h.read(h.node())
	require.Equal(t, newer, got)
	require.Contains(t, h.state().Damage, "upgrade")
}

func TestForeignScopesAndBucketsDoNotHideTheOthers(t *testing.T) {
	h := newFixture(t)
	hold := h.hold(h.Client(), "holder")
	h.put(h.Root+"/locks/zz/scope", "", 0, world)
	h.put(h.Root+"/locks/bucket/a%2", "", 0, world)
	h.put(h.node()+"-in-the-wrong-bucket", "", 0, world)
	h.put(h.Root+"/locks/00/%", "", 0, world)
	h.put(h.lockNode("closed"), "", 0, zk.DigestACL(zk.PermAll, "ann", "x"))
	h.put(h.lockNode("broken"), "garbage", 0, world)

	states, _, err := h.Client().Locks(t.Context())

	require.NoError(t, err)
	var scopes []string
	for _, s := range states {
		scopes = append(scopes, s.Scope)
	}
	require.Equal(t, []string{"broken", "closed", scope}, scopes)
	require.Contains(t, states[0].Damage, h.lockNode("broken"))
	require.Contains(t, states[1].Damage, "ACL")
	require.Empty(t, states[2].Damage)
	require.Equal(t, hold.Granted().ID(), states[2].Holders[0].ID)
}
