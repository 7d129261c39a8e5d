package throughput

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryMeasureHasItsTurnAndNothingIsLeft(t *testing.T) {
	server := zktest.RunT(t)
	r, err := Measure(t.Context(), Options{Client: lock.Config{Servers: []string{server.Addr()}}, Clients: []int{4, 1}, For: 500 * time.Millisecond})
	require.NoError(t, err)
	var measures []string
	for _, row := range r.Rows {
		measures = append(measures, row.Measure)
		require.Positive(t, row.Cycles, row.Measure)
		require.Positive(t, row.PerSecond, row.Measure)
		require.NotEmpty(t, row.Steps, row.Measure)
		for _, s := range row.Steps {
			require.Positive(t, s.P50, s.Name)
			require.GreaterOrEqual(t, s.P99, s.P50, s.Name)
		}
		require.Equal(t, row.Measure == Own, row.OfRaw > 0, row.Measure)
	}
	require.Equal(t, []string{Raw, Own, Raw, Own, Handover, Preemption}, measures)
	require.Equal(t, 1, r.Rows[0].Clients)
	require.Equal(t, 4, r.Rows[2].Clients)
	require.NotEmpty(t, r.Resembles())
	require.Empty(t, below(server, "/lockkeeper"), "what was made is removed")
	require.Empty(t, server.Sessions())
}

func TestMeasureThatIsInterruptedCleansUp(t *testing.T) {
	server := zktest.RunT(t)
	why := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(300*time.Millisecond, func() { cancel(why) })
	defer stop.Stop()
	_, err := Measure(ctx, Options{Client: lock.Config{Servers: []string{server.Addr()}}, Clients: []int{8}, For: time.Hour})
	require.ErrorIs(t, err, why)
	require.Empty(t, below(server, "/lockkeeper"))
	require.Empty(t, server.Sessions())
}

// below returns the nodes below a node.
func below(server *zktest.Server, root string) (paths []string) {
	for _, node := range server.Tree(root) {
		if node.Path != root {
			paths = append(paths, node.Path)
		}
	}
	return paths
}

func TestOptionsThatCannotBe(t *testing.T) {
	_, err := Measure(t.Context(), Options{Clients: []int{0, 1000}, For: -time.Second})
	require.ErrorContains(t, err, "out of range")
	require.ErrorContains(t, err, "-1s is negative")
}

func TestNearestDiskIsFoundByRatio(t *testing.T) {
	for perSecond, kind := range map[float64]string{1: "HDD SATA", 45: "HDD SATA", 120: "HDD SATA", 150: "SSD SATA", 700: "SSD SATA", 800: "SSD NVMe", 1700: "SSD NVMe", 1800: "tmpfs", 1e6: "tmpfs"} {
		r := Result{Rows: []Row{{Measure: Raw, Clients: 1, PerSecond: 1}, {Measure: Own, Clients: 1, PerSecond: perSecond}}}
		require.Equal(t, kind, r.Resembles(), "%v", perSecond)
	}
	require.Empty(t, Result{Rows: []Row{{Measure: Own, Clients: 8, PerSecond: 100}}}.Resembles())
}
