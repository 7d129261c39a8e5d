package classic

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func lockLine(t *testing.T, naming Naming) *line {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	c, err := zkclient.NewClient(zkclient.Config{Servers: []string{"zk1:2181"}, Dialer: refused})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &line{c: c, label: "/locks/a", path: "/locks/a", naming: naming, marks: lockMarks}
}

// go-zookeeper Z3
func TestNamesOfEveryClientAreUnderstood(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]ticket{
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-lock-0000000007": {sequence: 7, mark: curatorLock},
		"_c_38553bd6d1d57f710ae70ddcc3d24715-lock-0000000000":     {sequence: 0, mark: curatorLock},
		"_c_38553bd6d1d57f710ae70ddcc3d24715-lock--2147483648":    {sequence: math.MinInt32, mark: curatorLock},
		"_c_38553bd6d1d57f710ae70ddcc3d24715-lock--000000001":     {sequence: -1, mark: curatorLock},
		"lock-0000000003": {sequence: 3, mark: curatorLock},
		"da5719988c244fc793f49ec3aa29b566__lock__0000000003":          {sequence: 3, mark: kazooLock},
		"da5719988c244fc793f49ec3aa29b566__lock__-2147483647":         {sequence: math.MinInt32 + 1, mark: kazooLock},
		"da5719988c244fc793f49ec3aa29b566__rlock__2147483647":         {sequence: math.MaxInt32, mark: kazooRead},
		"da5719988c244fc793f49ec3aa29b566-lock-0000000004":            {sequence: 4, mark: curatorLock},
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-__READ__0000000012":  {sequence: 12, mark: curatorRead},
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-__WRIT__-2147483648": {sequence: math.MinInt32, mark: curatorWrite},
	} {
		got, ok := parseTicket(name, lockMarks)
		require.True(t, ok, name)
		require.Equal(t, want.sequence, got.sequence, name)
		require.Equal(t, want.mark, got.mark, name)
		require.Equal(t, name, got.name)
	}
}

// Kazoo K14
func TestNamesThatAreNoParticipantsAreIgnored(t *testing.T) {
	t.Parallel()
	foreign := []string{
		"", "_c_", "lock-", "leases", "noLockHere", "lock-1", "lock-000000000", "lock-00000000x1", "lock-+000000001",
		"lock-99999999999", "block-0000000001", "__lock__", "x__lock__1", "0000000001",
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-lease-0000000007",
	}
	require.Empty(t, lockLine(t, NamingCurator).order(foreign))
}

func TestReaderWaitsForTheNearestWriterAndNotForItsOwn(t *testing.T) {
	t.Parallel()
	queue := lockLine(t, NamingCurator).order([]string{
		"a-__WRIT__0000000001", "b-__READ__0000000001", "c-__READ__0000000002", "d-__WRIT__0000000003", "e-__READ__0000000004", "f-__READ__0000000005",
	})
	waitsFor := make(map[string]int)
	for i, ticket := range queue {
		r := behindAll
		if ticket.mark.shared {
			r = behindWriters
		}
		waitsFor[ticket.name[:1]] = r(queue, i)
	}
	require.Equal(t, map[string]int{"a": -1, "b": -1, "c": 0, "d": 2, "e": 3, "f": 3}, waitsFor)
}

func TestOwnNodeIsKnownByItsWholeGUID(t *testing.T) {
	t.Parallel()
	guid := newUUID()
	require.Len(t, guid, 36)
	for _, naming := range []Naming{NamingCurator, NamingKazoo} {
		l := lockLine(t, naming)
		name := l.prefix(guid, l.lockMark()) + "0000000001"
		require.True(t, l.owns(name, guid))
		require.False(t, l.owns("_c_", guid))
		require.False(t, l.owns(name, newUUID()))
		_, ok := parseTicket(name, lockMarks)
		require.True(t, ok)
	}
}
