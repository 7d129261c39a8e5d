package groups

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// This test looks at the whole process and the whole server: none runs beside it.
func TestNothingIsLeftOfAParticipantThatHasLeft(t *testing.T) {
	f := alone(t)
	s := spec(12)
	keeper := f.join(s, "keeper")
	leaver := f.player("leaver", f.client())
	visit := func() {
		leaver.join(s)
		f.share(6, keeper, leaver)
		leaver.leave()
		f.share(12, keeper)
	}
	visit()
	calm := goleak.IgnoreCurrent()
	watches, goroutines := len(f.Watches()), runtime.NumGoroutine()

	for range 10 {
		visit()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := leaver.group(s).Join(ctx, "keeper", leaver) // in vain: the name is taken
	require.Error(t, err)

	harness.Eventually(t, func() bool {
		return len(f.Ephemerals()) == 1 && len(f.Watches()) <= watches+1 && runtime.NumGoroutine() <= goroutines+2
	}, "there were %d watches and %d goroutines", watches, goroutines)
	harness.NoGoroutines(t, calm)
}
