package locks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestListenerMayReleaseTheLockThatItIsAskedFor(t *testing.T) {
	h := share(t)
	grants, released := make(chan *recipes.Grant, 1), make(chan error, 1)
	u := h.hold("ann", func(r *recipes.Request) {
		add, release := r.Notify, on[recipes.PreemptRequested](func() { released <- (<-grants).Release(context.Background()) })
		r.Notify = func(n recipes.Notice) { add(n); release(n) }
	})
	grants <- u.Granted()

	next := h.acquire("bob", harness.At(5))

	require.NoError(t, <-released)
	next.Granted()
}
