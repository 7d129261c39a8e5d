package foreign

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const valid = `{"format":1,"owner":"ghost","host":"h","pid":1,"priority":9,"mode":"exclusive","lease_timeout_ms":3600000,"cleanup_timeout_ms":0}`

// nonsense is what may stand in a node that says nothing.
var nonsense = map[string]string{
	"empty": "", "garbage": "\x00\xff{", "another type": `["a"]`, "null": "null", "no format": `{"owner":"x"}`,
	"other fields": `{"format":1,"owner":{"name":"x"}}`, "huge": strings.Repeat("x", 600<<10), "huge and right": strings.TrimSuffix(valid, "}") + `,"message":"` + strings.Repeat("x", 600<<10) + `"}`,
}

func TestPersistentNodesWithARequestsNameArePassedOver(t *testing.T) {
	for what, data := range map[string]string{"empty": "", "garbage": "x", "right": valid, "newer": `{"format":9}`} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			// given nodes that no session keeps, before all others: as important as can be, one
			// with children, and one that is a container
			h.put(h.node()+"/"+request(2147483647, 1), data, 0, world)
			h.put(h.node()+"/"+request(7, 2)+"/child", data, 0, world)
			h.put(h.node()+"/"+request(0, 3), data, 0, world)
			_, err := h.Shell().Multi(&zk.CreateRequest{Path: h.node() + "/" + request(8, 4), Data: []byte(data), Acl: world, Flags: zk.FlagContainer})
			require.ErrorIs(t, err, zk.ErrAPIError, "go-zookeeper cannot read the answer")

			h.works()

			// and they are notified
			state := h.state()
			require.Len(t, state.Foreign, 4)
			require.False(t, state.Held())
			require.Empty(t, state.Waiters)
			for _, n := range []int{1, 2, 3} {
				node := h.own(guid(n))
				_, stat := h.read(node)
				require.Zero(t, stat.Version, "not written")
			}
		})
	}
}

func TestRequestsThatSayNothingArePassedOver(t *testing.T) {
	for what, data := range nonsense {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			h.put(h.node()+"/"+request(2147483647, 1), data, zk.FlagEphemeral, world)
			h.put(h.node()+"/"+request(0, 0), data, zk.FlagEphemeral, world)

			h.works()

			require.Len(t, h.state().Foreign, 2)
			got, stat := h.read(h.own(guid(1)))
			require.Equal(t, data, got)
			require.Zero(t, stat.Version)
		})
	}
}

func TestRequestsThatMayNotBeReadArePassedOver(t *testing.T) {
	h := newFixture(t)
	h.put(h.node()+"/"+request(2147483647, 1), valid, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "ann", "x"))
	h.put(h.node()+"/"+request(0, 0), "", 0, zk.DigestACL(zk.PermAll, "ann", "x"))

	h.works()

	require.Len(t, h.state().Foreign, 2)
}

// It can be read, and must not be written: it has to grant itself.
func TestSuccessorThatMayNotBeWrittenDoesNotStopARelease(t *testing.T) {
	h := newFixture(t)
	holder := h.hold(h.Client(), "holder")
	node := h.node() + "/" + request(9, 99)
	h.put(node, valid, zk.FlagEphemeral, zk.WorldACL(zk.PermRead))
	waiter := h.ask(h.Client(), "waiter")
	waiter.Queued()

	holder.Release()

	_, stat := h.read(node)
	require.Zero(t, stat.Version)
	waiter.IsPending()
	h.Delete(node)
	waiter.Granted()
}

func TestNamesThatAreNoRequestsAreIgnored(t *testing.T) {
	h := newFixture(t)
	odd := []string{
		"x", "lock-0000000001", "2147483647-x-" + guid(1), request(0, 1) + "x", strings.Replace(request(0, 1), "-x-", "-u-", 1), "9999999999-x-" + guid(1) + "-0000000001",
		"2147483647-x-" + guid(1) + "-+000000001", "2147483647-x-" + guid(1) + "-1", "größe", "_c_6f0c7f63-0d1d-4b1f-8a3e-f1e0a6a5d2aa-lock-0000000001",
	}
	for _, name := range odd { // with the data of a request: what has none is no request whatever its name
		h.put(h.node()+"/"+name, valid, zk.FlagEphemeral, world)
	}

	h.works()

	require.ElementsMatch(t, odd, h.state().Foreign)
}

// A newer program's request is one: a client that does not understand it cannot
// grant it, so it grants itself, and no request passes it meanwhile.
func TestNewerProgramsRequestIsNeitherWrittenNorPassed(t *testing.T) {
	const newer = `{"format":9,"owner":{"name":"x"},"mode":7}`
	h := newFixture(t)
	holder := h.hold(h.Client(), "holder")
	node := h.node() + "/" + request(9, 99)
	h.put(node, newer, zk.FlagEphemeral, world)
	waiter := h.ask(h.Client(), "waiter")
	waiter.Queued()
	require.Equal(t, "<unreadable>", h.state().Waiters[0].Owner)

	holder.Release()

	got, stat := h.read(node)
	require.Equal(t, newer, got) //nolint:testifylint // to the byte
	require.Zero(t, stat.Version)
	waiter.IsPending()
	h.Delete(node)
	waiter.Granted()
}

// Members that a newer program of the same format has written stay, whichever
// client writes the node for it.
func TestUnknownMembersOfARequestSurviveWhatOthersWriteThere(t *testing.T) {
	h := newFixture(t)
	more := strings.TrimSuffix(valid, "}") + `,"hue":{"a":[1,2]},"preempt_by":[{"id":"` + guid(5) + `","owner":"o","priority":1,"reason":"outranked","grace_ms":5,"tone":"kind"}]}`
	node := h.node() + "/" + request(5, 99)
	holder := h.hold(h.Client(), "holder")
	h.put(node, more, zk.FlagEphemeral, world)
	h.ask(h.Client(), "waiter").Queued() // behind it, so that the holder does not leave without a look

	holder.Release() // T4

	granted := h.fields(node)
	require.Equal(t, true, granted["granted"])
	require.Equal(t, map[string]any{"a": []any{1.0, 2.0}}, granted["hue"])

	h.put(h.node()+"/"+strings.Replace(request(0, 5), "x", "s", 1), strings.Replace(valid, "exclusive", "shared", 1), zk.FlagEphemeral, world) // whose note that is
	important := h.ask(h.Client(), "important", harness.At(9))
	harness.Await[lock.PreemptSent](t, important.Notices) // T6
	asked := h.fields(node)
	require.Equal(t, map[string]any{"a": []any{1.0, 2.0}}, asked["hue"])
	notes := asked["preempt_by"].([]any)
	require.Len(t, notes, 2)
	require.Equal(t, "kind", notes[0].(map[string]any)["tone"])
}

// A waiter that finds its node overwritten never starts its work, and the lock
// stays with its holder.
func TestWaiterWhoseNodeIsOverwrittenDoesNotHold(t *testing.T) {
	for what, data := range nonsense {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			holder := h.hold(h.Client(), "holder")
			waiter, next := h.ask(h.Client(), "waiter"), h.Client()
			waiter.Queued()
			state := h.state()

			h.Set(h.own(state.Waiters[0].ID), []byte(data))

			if grant, err := waiter.Wait(); err == nil { // its event says granted, and its node does not
				_, err = grant.Token(t.Context())
				var lost *lock.LostError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, lock.LossDeleted, lost.Reason)
				require.ErrorContains(t, err, "overwritten")
			}
			require.NoError(t, holder.Granted().Check())
			harness.Eventually(t, func() bool { s := h.state(); return len(s.Waiters)+len(s.Foreign) == 0 }, "the node stays")
			require.Equal(t, "holder", h.state().Holders[0].Owner)
			after := h.ask(next, "next")
			after.Queued()
			holder.Release()
			after.Granted()
		})
	}
}

func TestHolderWhoseNodeIsOverwrittenLosesTheLockAndTheNextHasIt(t *testing.T) {
	for what, data := range nonsense {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			holder, waiter := h.hold(h.Client(), "holder"), h.ask(h.Client(), "waiter")
			waiter.Queued()
			_, err := holder.Granted().Token(t.Context())
			require.NoError(t, err)

			h.Set(h.own(holder.Granted().ID()), []byte(data))

			loss := holder.Lost()
			require.Equal(t, lock.LossDeleted, loss.Err.Reason)
			require.ErrorContains(t, loss.Err, "overwritten")
			waiter.Granted()
		})
	}
}
