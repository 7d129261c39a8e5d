package locks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestListenerMayReleaseTheLockThatItIsAskedFor(t *testing.T) {
	h := share(t)
	grants, released := make(chan *lock.Grant, 1), make(chan error, 1)
	u := h.hold("ann", func(r *lock.Request) {
		add, release := r.Notify, on[lock.PreemptRequested](func() { released <- (<-grants).Release(context.Background()) })
		r.Notify = func(n lock.Notice) { add(n); release(n) }
	})
	grants <- u.Granted()

	next := h.acquire("bob", harness.At(5))

	require.NoError(t, <-released)
	next.Granted()
}
