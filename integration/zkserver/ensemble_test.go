package zkserver_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestEnsembleHasTheMembersThatWereAskedFor(t *testing.T) {
	ensemble := zkserver.StartEnsemble(t, zkserver.WithMembers(5, 1), zkserver.WithHeap(64))
	require.Len(t, ensemble.Servers(), 6)
	followers, err := ensemble.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 4)
	observers, err := ensemble.Observers(t.Context())
	require.NoError(t, err)
	require.Equal(t, ensemble.Servers()[5:], observers)
	c := connect(t, observers[0].Addr(), 4*time.Second)
	c.write(t, "/kept", "data")
}

func TestSessionIsExpiredThroughAFollower(t *testing.T) {
	ensemble := zkserver.StartEnsemble(t)
	c := connect(t, ensemble.Connect(), 4*time.Second)
	session := c.Session()
	followers, err := ensemble.Followers(t.Context())
	require.NoError(t, err)

	zkserver.ExpireSession(t, followers[0].Addr(), session.ID, session.Password)

	c.Becomes(zk.StateExpired)
	leader, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	sessions, err := leader.Sessions(t.Context())
	require.NoError(t, err)
	require.NotContains(t, sessions.Alive, session.ID)
}
