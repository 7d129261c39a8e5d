package identity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestNobodyBreaksALockInAnOpenDeployment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.client(nobody)
	lock, err := c.PriorityLock("cluster/orders")
	require.NoError(t, err)
	grant, err := lock.Acquire(h.context(), recipes.Request{Owner: "batch"})
	require.NoError(t, err)
	token, err := grant.Token(h.context())
	require.NoError(t, err)

	_, err = h.client(nobody).Break(h.context(), recipes.BreakRequest{Scope: "cluster/orders", Token: token, By: "ana", Reason: "because"})

	require.ErrorAs(t, err, new(*recipes.IdentityError))
	require.NoError(t, grant.Check())
	require.NoError(t, grant.Release(h.context()))
}
