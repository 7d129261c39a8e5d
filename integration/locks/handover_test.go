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

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Whoever has read a request before hands over without reading it again; what
// the successor asked for stays what it asked for.
func TestRequestIsUnchangedByItsHandOver(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	left, right := h.lock(h.client()), h.lock(h.client())
	onlooker := h.client()
	holder := h.hold(left, "left")
	for i := range 12 {
		// given a holder, and a waiter whose request is like one before, or is not
		message := fmt.Sprint("reason ", i/3)
		l := []*recipes.PriorityLock{right, left}[i%2]
		waiter := h.ask(l, "waiter", cleanup(soon), func(r *recipes.Request) { r.Message = message })
		waiter.queued()

		// when the lock is handed over
		holder.release()
		holder = waiter
		holder.granted()

		// then the node says what the waiter said
		state := h.state(onlooker)
		require.Len(t, state.Holders, 1)
		require.Equal(t, message, state.Holders[0].Message)
		require.Equal(t, soon, state.Holders[0].CleanupTimeout)
		require.Equal(t, holder.grant.ID(), state.Holders[0].ID)
		require.Equal(t, holder.token(), state.Holders[0].Token)
	}
	holder.release()
	h.nobodyThere()
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
			t.Parallel()
			h := shareHouse(t)
			shell := h.shell()
			l := h.lock(h.client())

			// given a holder that has handed over to such a request before
			for n, data := range []string{test.known, test.created} {
				holder := h.hold(l, "holder")
				<-time.After(20 * time.Millisecond) // a hold this long looks before it leaves
				node := h.lockNode(holder.grant.ID()) + "/2147483647-x-" + guid(n) + "-"
				node, err := shell.Create(node, []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				if n == 1 && test.written != "" {
					_, err := shell.Set(node, []byte(test.written), 0)
					require.NoError(t, err)
				}

				// when it hands over
				holder.release()

				// then the successor holds, and its request is what it was
				holders := h.state(h.client()).Holders
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

// Who is next was read while the lock was held; somebody more important who
// came since goes first all the same.
func TestSuccessorThatWasSeenAWhileAgoLetsTheMoreImportantPass(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one that holds a lock which was handed over to it, and has looked who is next
	first := h.hold(h.lock(h.client()), "first", at(9))
	holder := h.ask(h.lock(h.client()), "holder", at(9))
	holder.queued()
	next := h.ask(h.lock(h.client()), "next", at(1))
	next.queued()
	first.release()
	holder.granted()
	<-time.After(20 * time.Millisecond)

	// when a more important one comes, and the holder releases
	important := h.ask(h.lock(h.client()), "important", at(3))
	important.queued()
	holder.release()

	// then that one is granted
	important.granted()
	next.waits()
	important.release()
	next.granted()
}

// The same if it has just been asked to go, however fresh its memory is.
func TestHolderThatIsAskedToGoLooksWhoIsNext(t *testing.T) {
	t.Parallel()
	for range 20 {
		h := shareHouse(t)

		// given one that has just got a lock that others wait for, and gives way at once
		first := h.hold(h.lock(h.client()), "first", at(1))
		var holder *user
		holder = h.ask(h.lock(h.client()), "holder", at(1), cleanup(time.Hour), func(r *recipes.Request) {
			note := r.Notify
			r.Notify = func(n recipes.Notice) {
				note(n)
				if _, asked := n.(recipes.PreemptAsked); asked {
					go holder.release()
				}
			}
		})
		holder.queued()
		low := h.ask(h.lock(h.client()), "low")
		low.queued()
		boss := h.lock(h.client())
		first.release()
		holder.granted()
		holder.token() // reads its node, and so watches it

		// when a more important one asks it to go
		important := h.ask(boss, "important", at(9))

		// then that one is next
		important.granted()
		low.waits()
		important.release()
		low.granted()
		low.release()
	}
}

// A release that is stuck in a broken connection grants whoever is first when
// it is carried out, not whoever was first before.
func TestReleaseWithoutAConnectionLooksWhenItHasOne(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder that knows who is next, and whose connection breaks
	var blocked atomic.Bool
	wire, lost := &tripwire{}, make(logLine, 100)
	c := h.client(func(cfg *recipes.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(lost, nil))
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if blocked.Load() {
				return nil, errors.New("blocked")
			}
			return wire.dial(ctx, network, addr)
		}
	})
	first := h.hold(h.lock(h.client()), "first")
	holder := h.ask(h.lock(c), "holder", cleanup(time.Hour))
	holder.queued()
	low := h.ask(h.lock(h.client()), "low")
	low.queued()
	boss := h.lock(h.client())
	first.release()
	holder.granted()
	<-time.After(2 * time.Millisecond)
	blocked.Store(true)
	wire.cut()
	for !strings.Contains(<-lost, "connection to ZooKeeper lost") {
	}

	// when it releases, and a more important one asks it to go before there is a connection
	released := make(chan struct{})
	go func() {
		defer close(released)
		holder.release()
	}()
	important := h.ask(boss, "important", at(9))
	await[recipes.PreemptSent](t, important.told)
	blocked.Store(false)

	// then that one is next
	important.granted()
	<-released
	low.waits()
	important.release()
	low.granted()
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
	t.Parallel()
	h := shareHouse(t)
	mine, others := h.client(), h.client()
	for _, pause := range []time.Duration{0, 4 * time.Millisecond, 30 * time.Millisecond} {
		var holds []*user
		for i := range 4 {
			holds = append(holds, h.hold(h.scope(mine, fmt.Sprint(pause, i)), "holder", cleanup(time.Hour)))
			if i == 1 {
				holds[0].release() // one that ends early
			}
			<-time.After(pause)
		}
		for i, holder := range holds[1:] {
			boss := h.ask(h.scope(others, fmt.Sprint(pause, i+1)), "boss", at(1))
			await[recipes.PreemptAsked](t, holder.told)
			holder.release()
			boss.granted()
			boss.release()
		}
	}
}
