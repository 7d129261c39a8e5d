package locks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Whoever has read a request before hands over without reading it again; what
// the successor asked for stays what it asked for.
func TestRequestIsUnchangedByItsHandOver(t *testing.T) {
	h := share(t)
	left, right := h.lock(h.Client()), h.lock(h.Client())
	onlooker := h.Client()
	holder := h.Hold(left, "left")
	for i := range 12 {
		// given a holder, and a waiter whose request is like one before, or is not
		message := fmt.Sprint("reason ", i/3)
		l := []*recipes.PriorityLock{right, left}[i%2]
		waiter := h.Acquire(l, "waiter", harness.Cleanup(time.Minute), func(r *recipes.Request) { r.Message = message })
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
				holder := h.Hold(l, "holder")
				<-time.After(20 * time.Millisecond) // a hold this long looks before it leaves
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

// A release that is stuck in a broken connection grants whoever is first when
// it is carried out, not whoever was first before.
func TestReleaseWithoutAConnectionLooksWhenItHasOne(t *testing.T) {
	h := share(t)

	// given a holder that knows who is next, and whose connection breaks
	var blocked atomic.Bool
	wire, lost := &tripwire{}, make(logLine, 100)
	c := h.Client(func(cfg *recipes.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(lost, nil))
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if blocked.Load() {
				return nil, errors.New("blocked")
			}
			return wire.dial(ctx, network, addr)
		}
	})
	first := h.hold("first")
	holder := h.Acquire(h.lock(c), "holder", harness.Cleanup(time.Hour))
	holder.Queued()
	low := h.queued("low")
	boss := h.lock(h.Client())
	first.Release()
	holder.Granted()
	<-time.After(2 * time.Millisecond)
	blocked.Store(true)
	wire.cut()
	for !strings.Contains(<-lost, "connection to ZooKeeper lost") {
	}

	// when it releases, and a more important one asks it to go before there is a connection
	released := make(chan struct{})
	go func() {
		defer close(released)
		holder.Release()
	}()
	important := h.Acquire(boss, "important", harness.At(9))
	harness.Await[recipes.PreemptSent](h, important.Notices)
	blocked.Store(false)

	// then that one is next
	important.Granted()
	<-released
	low.IsPending()
	important.Release()
	low.Granted()
}

// logLine hands on what is logged, a line at a time.
type logLine chan string

func (l logLine) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// Every hold that lasts hears that it is asked to go, in whatever order it and
// others of its client began and ended.
func TestEveryHoldOfAClientHearsThatItIsAskedToGo(t *testing.T) {
	h := share(t)
	mine, others := h.Client(), h.Client()
	for _, pause := range []time.Duration{0, 4 * time.Millisecond, 30 * time.Millisecond} {
		var holds []*harness.Request
		for i := range 4 {
			holds = append(holds, h.Hold(h.Lock(mine, fmt.Sprint(pause, i)), "holder", harness.Cleanup(time.Hour)))
			if i == 1 {
				holds[0].Release() // one that ends early
			}
			<-time.After(pause)
		}
		for i, holder := range holds[1:] {
			boss := h.Acquire(h.Lock(others, fmt.Sprint(pause, i+1)), "boss", harness.At(1))
			harness.Await[recipes.PreemptAsked](h, holder.Notices)
			holder.Release()
			boss.Release()
		}
	}
}

// The holder has read who is next while it held the lock. A more important request that has come since goes first.
func TestSuccessorThatWasSeenAWhileAgoLetsTheMoreImportantPass(t *testing.T) {
	h := share(t)

	// given one that was handed the lock, and has read who is next a while ago
	first := h.hold("first", harness.At(9))
	holder, next := h.queued("holder", harness.At(9)), h.queued("next", harness.At(1))
	first.Release()
	holder.Granted()
	<-time.After(20 * time.Millisecond) // what it has read may be used for less

	// when a more important one comes, and the holder releases, then that one is granted
	important := h.queued("important", harness.At(3))
	holder.Release()
	important.Granted()
	next.IsPending()
	important.Release()
	next.Granted()
}

// The same for a holder that was just asked to go, however short ago it has read who is next.
func TestHolderThatIsAskedToGoLooksWhoIsNext(t *testing.T) {
	t.Parallel()
	for range 10 {
		h := &fixture{harness.New(t, shared.Server(t))}

		// given one that has just got a lock that others wait for, and gives way at once
		first := h.hold("first", harness.At(1))
		asked := make(chan struct{})
		holder := h.queued("holder", harness.At(1), harness.Cleanup(time.Hour), func(r *recipes.Request) {
			add, note := r.Notify, on[recipes.PreemptAsked](func() { close(asked) })
			r.Notify = func(n recipes.Notice) { add(n); note(n) }
		})
		low, boss := h.queued("low"), h.lock(h.Client())
		first.Release()
		holder.Token() // reads its node, and so watches it

		// when a more important one asks it to go, then that one is next
		important := h.Acquire(boss, "important", harness.At(9))
		harness.Receive(t, asked, "it is not asked to go")
		holder.Release()
		important.Granted()
		low.IsPending()
		important.Release()
		low.Release()
	}
}
