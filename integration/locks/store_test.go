package locks

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// errStale is what a fenced resource answers to a token that is smaller than
// one that it has seen.
var errStale = errors.New("stale token")

// entry is one write that a fenced resource took.
type entry struct {
	token lock.Token
	who   string
}

// A store is a fenced resource in memory.
type store struct {
	mu      sync.Mutex
	entries []entry
}

func (s *store) write(token lock.Token, who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries); n > 0 && token < s.entries[n-1].token {
		return errStale
	}
	s.entries = append(s.entries, entry{token, who})
	return nil
}

// wasWrittenInTurns checks that no two shared a token, and that none wrote
// after a newer one.
func (s *store) wasWrittenInTurns(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.entries)
	writer := map[lock.Token]string{}
	finished := map[string]bool{}
	last := entry{}
	for _, e := range s.entries {
		require.GreaterOrEqual(t, e.token, last.token)
		if e.who != last.who {
			require.False(t, finished[e.who], "%s came back after its turn", e.who)
			finished[last.who] = true
		}
		if other, ok := writer[e.token]; ok {
			require.Equal(t, other, e.who, "two have token %s", e.token)
		}
		writer[e.token] = e.who
		last = e
	}
}
