package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestEnsembleHasTheMembersThatWereAskedFor(t *testing.T) {
	ensemble := zkserver.StartEnsemble(t, zkserver.WithMembers(5, 1), zkserver.WithHeap(64), lasting())
	require.Len(t, ensemble.Servers(), 6)
	followers, err := ensemble.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 4)
	observers, err := ensemble.Observers(t.Context())
	require.NoError(t, err)
	require.Equal(t, ensemble.Servers()[5:], observers)
	c := connect(t, observers[0].Addr(), time.Minute)
	c.write(t, "/kept", "data")
}
