package harness

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Room is what a lock with readers protects: writers are alone, readers meet.
type Room struct {
	Met int // readers that came in beside others

	mu               sync.Mutex
	readers, writers int
	foul             string
	highest, writer  lock.Token // of all that were inside, and of the last writer
}

// Enter notes that one holds in a mode.
func (r *Room) Enter(mode priority.Mode, token lock.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := mode != priority.Shared
	switch {
	case r.writers > 0, writes && r.readers > 0:
		r.foul = fmt.Sprintf("%s came in beside %d writers and %d readers", mode, r.writers, r.readers)
	case token < r.writer, writes && token <= r.highest:
		r.foul = fmt.Sprintf("%s with token %d after %d, of a writer %d", mode, token, r.highest, r.writer)
	}
	r.highest = max(r.highest, token)
	if writes {
		r.writers++
		r.writer = token
	} else if r.readers++; r.readers > 1 {
		r.Met++
	}
}

// Leave notes that one of a mode holds no longer. It must be called before the release.
func (r *Room) Leave(mode priority.Mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mode == priority.Shared {
		r.readers--
	} else {
		r.writers--
	}
}

// WasInOrder checks that none was inside who must not be, that each writer's token was greater than those before and
// no reader's smaller than a writer's before, and that none is inside now.
func (r *Room) WasInOrder(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.foul)
	require.Zero(t, r.readers+r.writers, "still inside")
}
