package metrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestSessionIsShownAsItIs(t *testing.T) {
	b := newBoard(t)
	now := lock.Health{State: zkclient.SessionConnected, Timeout: 15 * time.Second, Left: 10500 * time.Millisecond}
	require.NoError(t, session(b.provider.Meter(Scope), func() lock.Health { return now }))
	require.Equal(t, map[string]float64{
		"lockkeeper.session.state{state=connected}": 1, "lockkeeper.session.state{state=connecting}": 0,
		"lockkeeper.session.state{state=suspended}": 0, "lockkeeper.session.state{state=closed}": 0,
		"lockkeeper.session.timeout{}": 15, "lockkeeper.session.deadline.margin{}": 10.5,
		"lockkeeper.session.expirations{}": 0, "lockkeeper.session.reconnects{}": 0,
	}, b.read(t))

	now = lock.Health{State: zkclient.SessionSuspended, Timeout: 15 * time.Second, Expirations: 2, Reconnects: 7}
	seen := b.read(t)
	require.InDelta(t, 0, seen["lockkeeper.session.state{state=connected}"], 0)
	require.InDelta(t, 1, seen["lockkeeper.session.state{state=suspended}"], 0)
	require.InDelta(t, 0, seen["lockkeeper.session.deadline.margin{}"], 0)
	require.InDelta(t, 2, seen["lockkeeper.session.expirations{}"], 0)
	require.InDelta(t, 7, seen["lockkeeper.session.reconnects{}"], 0)

	// A process that has no session yet, or none any more, holds nothing that could be lost.
	for _, state := range []zkclient.SessionState{zkclient.SessionConnecting, zkclient.SessionClosed} {
		now = lock.Health{State: state, Timeout: 15 * time.Second}
		require.NotContains(t, b.read(t), "lockkeeper.session.deadline.margin{}", state)
	}
}

func TestOperationsAreCountedByNameAndResult(t *testing.T) {
	b := newBoard(t)
	tell, err := operations(b.provider.Meter(Scope))
	require.NoError(t, err)
	tell(zkclient.Operation{Name: "multi", Result: zkclient.OperationOK, Took: 2 * time.Millisecond})
	tell(zkclient.Operation{Name: "multi", Result: zkclient.OperationOK, Took: 3 * time.Millisecond})
	tell(zkclient.Operation{Name: "get", Result: zkclient.OperationLost, Took: time.Second})
	seen := b.read(t)
	require.InDelta(t, 2, seen["lockkeeper.zk.operation.duration{op=multi,result=ok}"], 0)
	require.InDelta(t, 0.005, seen["+lockkeeper.zk.operation.duration{op=multi,result=ok}"], 1e-9)
	require.InDelta(t, 1, seen["lockkeeper.zk.operation.duration{op=get,result=lost}"], 0)
	require.Len(t, seen, 4)
}

func TestRecordingAnOperationMakesNothing(t *testing.T) {
	b := newBoard(t)
	tell, err := operations(b.provider.Meter(Scope))
	require.NoError(t, err)
	o := zkclient.Operation{Name: "multi", Result: zkclient.OperationOK, Took: time.Millisecond}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { tell(o) }), 2.0)
}
