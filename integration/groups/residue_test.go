package groups

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// This test looks at the whole process and the whole server: none runs beside it.
func TestNothingIsLeftOfAParticipantThatHasLeft(t *testing.T) {
	h := ownHouse(t)
	s := spec(12)
	keeper := h.join(s, "keeper")
	c := h.client()
	leaver := h.player("leaver", c)
	watches := func() (n int) {
		paths, err := h.server.Watches(t.Context())
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasPrefix(path, h.root) {
				n++
			}
		}
		return n
	}
	visit := func() {
		leaver.join(s)
		h.share(s, map[*player]int{keeper: 6, leaver: 6})
		leaver.leave()
		h.share(s, map[*player]int{keeper: 12})
	}
	visit()
	calm := goleak.IgnoreCurrent()
	before, goroutines := watches(), runtime.NumGoroutine()

	for range 10 {
		visit()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := leaver.group(s).Join(ctx, "keeper", leaver) // in vain: the name is taken
	require.Error(t, err)

	require.Eventually(t, func() bool {
		return len(h.members()) == 1 && watches() <= before+1 && runtime.NumGoroutine() <= goroutines+2
	},
		soon, 10*time.Millisecond, "watches %d, then %d; goroutines %d, then %d", before, watches(), goroutines, runtime.NumGoroutine())
	require.NoError(t, goleak.Find(calm))
	require.Len(t, h.members(), 1)
}
