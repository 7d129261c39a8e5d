package harness

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Notices collects what one request, member or program was notified of. N is an interface such as lock.Notice.
type Notices[N any] struct {
	who     string
	history *History

	mu    sync.Mutex
	all   []noticed[N]
	added chan struct{} // closed by the next one
	read  int           // how many Await has passed

	running  atomic.Int32
	overlaps []string // notices that came while another one was delivered
}

type noticed[N any] struct {
	notice N
	at     time.Time
}

// NewNotices returns an empty collection. Each notice is written into the history.
func NewNotices[N any](history *History, who string) *Notices[N] {
	return &Notices[N]{who: who, history: history, added: make(chan struct{})}
}

// Add takes a notice. It is what a request is given as its callback.
func (n *Notices[N]) Add(notice N) {
	alone := n.running.Add(1) == 1
	defer n.running.Add(-1)
	n.history.Add(n.who, "%T %+v", notice, notice)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !alone {
		n.overlaps = append(n.overlaps, fmt.Sprintf("%T", notice))
	}
	n.all = append(n.all, noticed[N]{notice, time.Now()})
	close(n.added)
	n.added = make(chan struct{})
}

// List returns the notices so far, in order.
func (n *Notices[N]) List() []N {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]N, len(n.all))
	for i, x := range n.all {
		list[i] = x.notice
	}
	return list
}

// InTurn checks that notices came one at a time: the next one when the callback had returned.
func (n *Notices[N]) InTurn(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Empty(t, n.overlaps, "%s was notified of something while it was notified of something else", n.who)
}

// Await waits for the next notice of kind K behind the one that was awaited last.
func Await[K, N any](t testing.TB, n *Notices[N]) K {
	t.Helper()
	notice, _ := AwaitAt[K](t, n)
	return notice
}

// AwaitAt is Await, and says when the notice came.
func AwaitAt[K, N any](t testing.TB, n *Notices[N]) (K, time.Time) {
	t.Helper()
	deadline := time.After(Patience)
	for {
		n.mu.Lock()
		for n.read < len(n.all) {
			next := n.all[n.read]
			n.read++
			if k, ok := any(next.notice).(K); ok {
				n.mu.Unlock()
				return k, next.at
			}
		}
		added := n.added
		n.mu.Unlock()
		select {
		case <-added:
		case <-deadline:
			var none K
			require.FailNow(t, fmt.Sprintf("%s was not notified of %T within %s", n.who, none, Patience))
		}
	}
}

// All returns the notices of kind K so far, in order.
func All[K, N any](n *Notices[N]) (list []K) {
	for _, notice := range n.List() {
		if k, ok := any(notice).(K); ok {
			list = append(list, k)
		}
	}
	return list
}
