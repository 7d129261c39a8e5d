package zkserver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestSteppedClockShowsInNewNodesAndEndsNoSession(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t, zkserver.WithSteppableClock(), lasting())
	c := connect(t, server.Addr(), time.Minute)
	id := c.SessionID()
	_, err := c.Create("/alive", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	c.write(t, "/now", "")
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		require.NoError(t, server.StepClock(offset))
		before := time.Now()
		stat, err := c.Set("/now", nil, -1)
		require.NoError(t, err)
		stamp := time.UnixMilli(stat.Mtime)
		require.WithinRange(t, stamp, before.Add(offset-time.Second), time.Now().Add(offset+time.Second))
	}
	require.Equal(t, id, c.SessionID())
	there, _, err := c.Exists("/alive")
	require.NoError(t, err)
	require.True(t, there, "a step of the wall clock ended a session")
	require.Error(t, shared.Server(t).StepClock(time.Hour), "started without a clock that can be stepped")
}

// Were the announced addresses not changed, members would call each other back past the proxies.
func TestMembersThatCannotReachEachOtherHaveNoLeader(t *testing.T) {
	t.Parallel()
	ensemble := zkserver.StartEnsemble(t, zkserver.WithPeerLinks())
	for _, l := range ensemble.PeerLinks(nil) {
		require.NoError(t, l.Cut())
	}
	require.NoError(t, zkserver.Each(ensemble.Servers(), (*zkserver.Server).Kill))
	require.NoError(t, zkserver.Each(ensemble.Servers(), (*zkserver.Server).Launch))
	// Each link is tried, and refused; one that is let through one way only makes an election all the same, by calling back.
	for _, l := range ensemble.PeerLinks(nil) {
		if l.From.ID() < l.To.ID() {
			require.NoError(t, l.Pass())
		}
	}
	require.Len(t, ensemble.PeerLinks(nil), 12, "between three, each way, for elections and replication")
	require.Len(t, ensemble.PeerLinks(ensemble.Servers()[0]), 8)
	serving := func() bool {
		return slices.ContainsFunc(ensemble.Servers(), func(s *zkserver.Server) bool {
			_, err := s.Mode(t.Context())
			return err == nil
		})
	}
	require.Eventually(t, func() bool {
		tried := 0
		for _, l := range ensemble.PeerLinks(nil) {
			if l.From.ID() < l.To.ID() && l.Accepted() > 5 {
				tried++
			}
		}
		return tried == 3 || serving()
	}, 3*time.Minute, 50*time.Millisecond, "they do not call each other")
	require.False(t, serving(), "elected past the proxies")
	for _, l := range ensemble.PeerLinks(nil) {
		require.NoError(t, l.Pass())
	}
	require.NoError(t, ensemble.WaitCommitting(t.Context()))
}

func TestServerWithAFullDiskServesNoClientAndComesBackOnceThereIsSpace(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t, zkserver.WithFullableDisk(), lasting())
	t.Log(server.Disk())
	testFullDisk(t, server)
}

// Containers may not mount: then a limit on the size of files takes the place of the file system.
func TestFullDiskIsAlsoMadeByALimitOnFiles(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t, zkserver.WithFullableDisk(), zkserver.WithoutMount(), lasting())
	require.Contains(t, server.Disk(), "RLIMIT_FSIZE")
	testFullDisk(t, server)
}

func testFullDisk(t *testing.T, server *zkserver.Server) {
	t.Helper()
	c := connect(t, server.Addr(), 4*time.Second) // a longer one would wait for longer than the test does
	c.write(t, "/kept", "data")
	require.NoError(t, server.FillDisk())
	require.Eventually(t, func() bool {
		_, err := c.Set("/kept", make([]byte, 4096), -1)
		_, down := server.Mode(t.Context())
		return err != nil && down != nil
	}, 3*time.Minute, 10*time.Millisecond, "it serves on with a full disk")

	require.NoError(t, server.Kill())
	require.NoError(t, server.FreeDisk())
	require.NoError(t, server.Restart(t.Context()))
	after := connect(t, server.Addr(), time.Minute)
	require.Contains(t, []string{"data", string(make([]byte, 4096))}, after.read(t, "/kept"))
	after.write(t, "/written", "after")
}

func TestLeaderThatWakesUpCommitsOnlyOnceItFollows(t *testing.T) {
	t.Parallel()
	ensemble := zkserver.StartEnsemble(t)
	leader, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Pause())
	next, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, next.WaitCommitting(t.Context()))

	require.NoError(t, leader.Resume())
	require.NoError(t, ensemble.WaitCommitting(t.Context()))
	leaders := 0
	for _, s := range ensemble.Servers() {
		if mode, err := s.Mode(t.Context()); err == nil && mode == zkserver.Leader {
			leaders++
		}
	}
	require.Equal(t, 1, leaders, "the old leader still believes that it leads")
}
