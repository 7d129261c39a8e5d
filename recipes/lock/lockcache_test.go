package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// Scopes may have been removed while there was no session: what was known of the root's version is forgotten.
func TestEpochIsForgottenWhenASessionBegins(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	c, lock := uncontended(t, server)
	require.NotEqual(t, int32(-1), lock.cache.epoch.Load())

	id, _ := c.Session()
	require.True(t, server.Expire(id))
	require.Eventually(t, func() bool {
		now, _ := c.Session()
		return now != id && now != 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, int32(-1), lock.cache.epoch.Load())
}
