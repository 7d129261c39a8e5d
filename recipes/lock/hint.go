package lock

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A hint is what this process remembers of a lock to save requests. Being
// wrong costs a request, never safety: the lock node's version decides.
type hint struct {
	idle    bool   // released by us without a waiter, at version
	version int32  // of the lock node
	epoch   int32  // read before version was: one from before a removal fails
	blind   int8   // how often we have released it since a request of ours looked who is there
	open    walkIn // where readers may walk in; the zero value: nowhere that is known
	walking int8   // how many of ours are on their way in
	throng  throng // how many hold it then, at most
	busy    int8   // > 0: others were seen lately, so look for a successor before leaving

	waiting   int            // how many waited
	lowest    priority.Level // of those
	waitingAt time.Time      // when a request of ours looked

	wait time.Duration // how long requests of ours wait for a hand-over, about
}

func (h *hint) crowded() { h.busy, h.idle = busyLooks, false }

// waited takes note of how long a request waited for its hand-over.
func (h *hint) waited(d time.Duration) {
	if h.wait == 0 {
		h.wait = d
	}
	h.wait = (h.wait + d) / 2
}

// maxPatience is the longest wait for a hand-over that is usual for a busy lock.
const maxPatience = 500 * time.Millisecond

// patience is how long one that stands behind several others may wait on its own node alone: where hand-overs come
// after half of that as a rule, to watch the one in front would be in vain.
func (h hint) patience() time.Duration {
	if h.wait > maxPatience {
		return 0
	}
	return 2 * h.wait
}

// Waiters come in bursts: after a list showed one, this many releases look for
// a successor before they leave.
const busyLooks = 8

// maxBlind is how often in a row a client takes a lock without a list, at most.
// A request that waits meanwhile may knock in vain: if a knock takes as long as
// a round of the client, each can meet a take.
const maxBlind = 8

// hintTable is bounded: when it is full it starts afresh.
type hintTable struct {
	mu sync.Mutex
	m  map[string]hint
}

const maxHints = 8192

func (t *hintTable) get(path string) hint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[path]
}

func (t *hintTable) update(path string, f func(*hint)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxHints {
		t.m = make(map[string]hint)
	}
	h := t.m[path]
	f(&h)
	if h == (hint{}) {
		delete(t.m, path)
		return
	}
	t.m[path] = h
}

func (t *hintTable) crowded(path string) {
	t.update(path, (*hint).crowded)
}
