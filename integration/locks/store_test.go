package locks

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// errStale is what a fenced resource answers to a token that is smaller than
// one that it has seen.
var errStale = errors.New("stale token")

// entry is one write that a fenced resource took.
type entry struct {
	token recipes.Token
	who   string
}

// A store is a fenced resource in memory.
type store struct {
	mu      sync.Mutex
	entries []entry
}

func newStore() *store { return &store{} }

func (s *store) write(token recipes.Token, who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries); n > 0 && token < s.entries[n-1].token {
		return errStale
	}
	s.entries = append(s.entries, entry{token, who})
	return nil
}

// wasWrittenInTurns checks that nobody shared a token, and that nobody wrote
// after another one.
func (s *store) wasWrittenInTurns(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	inTurns(t, s.entries)
}

func inTurns(t testing.TB, entries []entry) {
	t.Helper()
	require.NotEmpty(t, entries)
	writer := map[recipes.Token]string{}
	finished := map[string]bool{}
	last := entry{}
	for _, e := range entries {
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

// A fencedFile is a fenced resource that several processes write to: lines of
// a token and a name, under a lock of the file.
type fencedFile string

func (f fencedFile) write(token recipes.Token, who string) error {
	file, err := os.OpenFile(string(f), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	entries, err := readEntries(file)
	if err != nil {
		return err
	}
	if n := len(entries); n > 0 && token < entries[n-1].token {
		return errStale
	}
	_, err = fmt.Fprintf(file, "%s %s\n", token, who)
	return err
}

// isLocked reports whether somebody is writing.
func (f fencedFile) isLocked(t testing.TB) bool {
	t.Helper()
	file, err := os.Open(string(f))
	require.NoError(t, err)
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true
	}
	require.NoError(t, err)
	return false
}

func (f fencedFile) entries(t testing.TB) []entry {
	t.Helper()
	file, err := os.Open(string(f))
	require.NoError(t, err)
	defer file.Close()
	entries, err := readEntries(file)
	require.NoError(t, err)
	return entries
}

func readEntries(file *os.File) ([]entry, error) {
	var entries []entry
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		token, who, _ := strings.Cut(scanner.Text(), " ")
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{recipes.Token(n), who})
	}
	return entries, nil
}
