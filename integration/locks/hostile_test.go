package locks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// Whoever may write below the root may write anything. The view of other locks, and of
// the other requests of that lock, stays as it is, and what is shown can be shown.
func TestBoardShowsLocksInWhoseNodesAnybodyHasWritten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 900_000)
	for name, data := range map[string][]byte{
		"nothing":                        nil,
		"no JSON":                        []byte("\x00\xff\xfe{"),
		"not UTF-8":                      []byte(`{"format":1,"owner":"` + "\xff\xfe\x80" + `","priority":1,"mode":"exclusive","message":"` + "\xc3\x28" + `"}`),
		"control characters":             []byte(`{"format":1,"owner":"\u001b[31m\u0000\r\n","host":"\u202e","priority":1,"mode":"exclusive","message":"\u0007"}`),
		"a long message":                 []byte(`{"format":1,"owner":"ann","priority":1,"mode":"exclusive","message":"` + long + `"}`),
		"a long owner":                   []byte(`{"format":1,"owner":"` + long + `","priority":1,"mode":"exclusive"}`),
		"numbers that are too large":     []byte(`{"format":1,"owner":"ann","priority":2147483647,"mode":"exclusive","lease_timeout_ms":9223372036854775807,"granted":true,"granted_at":-9223372036854775808,"lease_from":9223372036854775807,"token":-1}`),
		"a newer format":                 []byte(`{"format":99,"owner":{"name":"ann"}}`),
		"requests to go from nobody":     []byte(`{"format":1,"owner":"ann","priority":1,"mode":"exclusive","granted":true,"preempt_by":[{"id":"` + long[:100_000] + `","owner":"` + long[:100_000] + `","grace_ms":-5},{"id":"","at":-1}]}`),
		"under itself, and what is not":  []byte(`{"format":1,"owner":"ann","priority":1,"mode":"exclusive","under":["nobody","","` + long[:1000] + `"]}`),
		"deep":                           []byte(strings.Repeat("[", 100_000)),
		"another mode than its name has": []byte(`{"format":1,"owner":"ann","priority":-7,"mode":"shared"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			c := h.client(allSeen)
			b := h.board()

			// given a holder, a waiter behind it, and another lock
			ann := h.hold(h.lock(c), "ann")
			bob := h.ask(h.lock(c), "bob")
			bob.queued()
			h.hold(h.scope(c, "other"), "cid")
			h.shows(b, "all", func(n *live.Snapshot) bool { return n.Totals.Holders == 2 && n.Totals.Waiters == 1 })
			shell := h.shell()

			// when somebody writes into the waiter's node, then into the holder's, then a node of its own
			holder := h.node(ann.grant.ID())
			lock := holder[:strings.LastIndexByte(holder, '/')]
			there := slices.DeleteFunc(h.contenders(), func(path string) bool { return path == holder || !strings.HasPrefix(path, lock+"/") })
			require.Len(t, there, 1)
			waiter := there[0]
			for _, node := range []string{waiter, holder} {
				_, err := shell.Set(node, data, -1)
				require.NoError(t, err)
			}
			_, err := shell.Create(lock+"/2147483647-x-0123456789abcdef01234567-0000000099", data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = shell.Create(lock+"/stranger", data, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)

			// then it agrees with a fresh look, and the other lock is shown
			deadline := time.Now().Add(soon)
			for {
				states, _, err := c.Locks(t.Context())
				require.NoError(t, err)
				want, is := text(t, still(live.NewLocks(states))), text(t, still(b.Now().Locks))
				if bytes.Equal(want, is) {
					break
				}
				if time.Now().After(deadline) {
					require.Equal(t, clipped(want), clipped(is))
				}
				<-time.After(gap)
			}
			all := text(t, b.Now())
			require.True(t, utf8.Valid(all))
			require.True(t, slices.ContainsFunc(b.Now().Locks, func(l live.Lock) bool { return l.Scope == "other" && len(l.Holders) == 1 }))

			// and the history, which keeps, keeps little of it
			line := text(t, b.Timeline("users", time.Time{}, time.Time{}))
			require.True(t, utf8.Valid(line))
			require.Less(t, len(line), 50_000)
			for _, e := range b.Entries(0, 0) {
				require.Less(t, len(text(t, e)), 20_000, "%s", e.Kind)
			}
			require.NoError(t, shell.Delete(lock+"/stranger", -1))
			for _, node := range []string{waiter, holder} {
				if err := shell.Delete(node, -1); err != nil {
					require.ErrorIs(t, err, zk.ErrNoNode)
				}
			}
			bob.cancel()
			bob.ended()
		})
	}
}

func TestBoardShowsALockInWhoseOwnNodeAnybodyHasWritten(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	b := h.board()
	ann := h.hold(h.lock(c), "ann")
	h.shows(b, "ann", func(n *live.Snapshot) bool { return n.Totals.Holders == 1 })
	lock := h.lockNode(ann.grant.ID())
	_, err := h.shell().Set(lock, fmt.Appendf(nil, `{"format":2,"holders":["%s","","%[1]s"],"evicted":[{"id":"eve","owner":"eve","by":"op","at":9223372036854775807}],`+
		`"delays":[{"id":"gus","owner":"gus","delay_ms":9223372036854775807,"ended":{"at":9223372036854775807,"epoch":1}},{"id":"hal","delay_ms":-1,"ended":{"at":-9223372036854775808}}]}`,
		ann.grant.ID()), -1)
	require.NoError(t, err)
	n := h.shows(b, "the delay", func(n *live.Snapshot) bool { return len(n.Locks[0].Delays) > 0 })
	require.Equal(t, "gus", n.Locks[0].Delays[0].Owner)
	text(t, n)
	text(t, b.Timeline("users", time.Time{}, time.Time{}))
	ann.release()
	h.shows(b, "that ann has gone", func(n *live.Snapshot) bool { return n.Totals.Holders == 0 })
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err, "%T", v)
	return data
}

func clipped(b []byte) string { return string(b[:min(len(b), 3000)]) }
