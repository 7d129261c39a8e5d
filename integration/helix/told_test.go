package helix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// receive waits for what comes on a channel, or for its end.
func receive[T any](t testing.TB, c <-chan T, otherwise string) (x T) {
	t.Helper()
	select {
	case x = <-c:
	case <-time.After(soon):
		require.FailNow(t, otherwise)
	}
	return x
}

// told is what the observer of one guard was told.
type told struct {
	who   string
	story *story

	mu     sync.Mutex
	events []lockguard.Event
	news   chan struct{} // closed by the next event
	read   int           // events that were awaited
}

func (n *told) note(_ context.Context, e lockguard.Event) {
	n.story.tell(n.who, "%s", describe(e))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
	close(n.news)
	n.news = make(chan struct{})
}

func describe(e lockguard.Event) string {
	text := fmt.Sprintf("%s token %s", name(e), e.About().Token)
	switch e := e.(type) {
	case lockguard.Displaced:
		text += fmt.Sprintf(", by %q", e.By.Owner)
	case lockguard.PreemptSent:
		text += fmt.Sprintf(", to %q, grace %s: %s", e.Holder.Owner, e.Grace, e.Reason)
	case lockguard.PreemptRequested:
		text += fmt.Sprintf(", by %q, grace %s, %s left: %s", e.By.Owner, e.Grace, e.Deadline.Sub(e.At), e.Reason)
	case lockguard.NotAcquired:
		text += fmt.Sprintf(": %v", e.Err)
	case lockguard.Requeued:
		text += fmt.Sprintf(": %v", e.Cause)
	case lockguard.CleanupDone:
		text += fmt.Sprintf(" after %s: %v", e.Took, e.Err)
	case lockguard.Released:
		text += fmt.Sprintf(", interrupted: %v; unconfirmed: %v", e.Cause, e.Err)
	case lockguard.Lost:
		text += fmt.Sprintf(": %v", e.Err)
	}
	return text
}

// name is what a kind of event is called: "Acquired".
func name(e lockguard.Event) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", e), "lockguard.")
}

// names lists what has happened so far.
func (n *told) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]string, 0, len(n.events))
	for _, e := range n.events {
		all = append(all, name(e))
	}
	return all
}

// forget makes that only what comes from now on is awaited.
func (n *told) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.read = len(n.events)
}

// await waits for the next event of a kind, behind the one awaited last.
func await[E lockguard.Event](t testing.TB, n *told) E {
	t.Helper()
	deadline := time.After(soon)
	for {
		n.mu.Lock()
		for n.read < len(n.events) {
			e, ok := n.events[n.read].(E)
			n.read++
			if ok {
				n.mu.Unlock()
				return e
			}
		}
		news := n.news
		n.mu.Unlock()
		select {
		case <-news:
		case <-deadline:
			var none E
			require.FailNow(t, fmt.Sprintf("%s was not told %s", n.who, name(none)))
		}
	}
}

// count returns how many events of a kind have come.
func count[E lockguard.Event](n *told) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := 0
	for _, e := range n.events {
		if _, ok := e.(E); ok {
			c++
		}
	}
	return c
}
