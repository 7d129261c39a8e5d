package locks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A holder that has read a request before hands over without reading it again;
// the successor's terms stay unchanged.
func TestRequestIsUnchangedByItsHandOver(t *testing.T) {
	h := share(t)
	left, right := h.lock(h.Client()), h.lock(h.Client())
	onlooker := h.Client()
	holder := h.Hold(left, "left")
	for i := range 12 {
		// given a holder, and a waiter whose request is like one before, or is not
		message := fmt.Sprint("reason ", i/3)
		l := []*lock.PriorityLock{right, left}[i%2]
		waiter := h.Acquire(l, "waiter", harness.Cleanup(time.Minute), func(r *lock.Request) { r.Message = message })
		waiter.Queued()

		// when the lock is handed over
		holder.Release()
		holder = waiter
		holder.Granted()

		// then the node says what the waiter said
		state := h.state(onlooker)
		require.Len(t, state.Holders, 1)
		require.Equal(t, message, state.Holders[0].Message)
		require.Equal(t, time.Minute, state.Holders[0].CleanupTimeout)
		require.Equal(t, holder.Granted().ID(), state.Holders[0].ID)
		require.Equal(t, holder.Token(), state.Holders[0].Token)
	}
	holder.Release()
	h.NoEphemerals()
}

// A node that was written to since its creation is read before it is granted,
// however well its request is known; so is one whose name says nothing true
// about its data.
func TestHandOverErasesNothing(t *testing.T) {
	t.Parallel()
	const request = `{"format":1,"owner":"stranger","host":"h","pid":1,"priority":0,"mode":"exclusive","lease_timeout_ms":60000,"cleanup_timeout_ms":0}`
	sum := sha256.Sum256([]byte(request))
	guid := func(n int) string { return fmt.Sprintf("%012d", n) + hex.EncodeToString(sum[:])[:12] }

	for _, test := range []struct {
		name    string
		known   string // data of a request with the same digest that the holder has seen
		created string
		written string
		want    string
	}{
		{"known", request, request, "", "stranger"},
		{"written to", request, request, strings.Replace(request, "stranger", "changed", 1), "changed"},
		{"misnamed before", strings.Replace(request, "stranger", "misnamed", 1), request, "", "stranger"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := share(t)
			shell := h.Shell()
			l := h.lock(h.Client())

			// given a holder that has handed over to such a request before
			for n, data := range []string{test.known, test.created} {
				holder := h.Hold(l, "holder", ofHold) // which looks before it leaves, however short it was
				node := lockNode(holder) + "/2147483647-x-" + guid(n) + "-"
				node, err := shell.Create(node, []byte(data), zk.FlagEphemeral|zk.FlagSequence, harness.WorldACL)
				require.NoError(t, err)
				if n == 1 && test.written != "" {
					_, err := shell.Set(node, []byte(test.written), 0)
					require.NoError(t, err)
				}

				// when it hands over
				holder.Release()

				// then the successor holds, and its request is what it was
				holders := h.state(h.Client()).Holders
				require.Len(t, holders, 1)
				require.Equal(t, guid(n), holders[0].ID)
				if n == 1 {
					require.Equal(t, test.want, holders[0].Owner)
				}
				require.NoError(t, shell.Delete(node, -1))
			}
		})
	}
}
