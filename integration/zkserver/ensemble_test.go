package zkserver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestEnsembleHasTheMembersThatWereAskedFor(t *testing.T) {
	ensemble := zkserver.StartEnsemble(t, zkserver.WithMembers(5, 1), zkserver.WithHeap(64), lasting())
	require.Len(t, ensemble.Servers(), 6)
	var observers []*zkserver.Server
	require.Eventually(t, func() bool { // of six on a busy machine, one may not answer in time
		followers, err := ensemble.Followers(t.Context())
		if err != nil || len(followers) != 4 {
			return false
		}
		observers, err = ensemble.Observers(t.Context())
		return err == nil && slices.Equal(ensemble.Servers()[5:], observers)
	}, 3*time.Minute, 10*time.Millisecond)
	c := connect(t, observers[0].Addr(), time.Minute)
	c.write(t, "/kept", "data")
}
