package packages

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/scheduler"
)

const (
	systemUnits = "usr/lib/systemd/system"
	daemonUnit  = "lockkeeper.service"

	// exposure is the highest that systemd-analyze security may find, in tenths: up to 2.0 is "OK".
	exposure = 20
)

var services = []string{daemonUnit, "lockkeeper@.service", "lockkeeper-gc.service"}

func TestSystemdFindsNothingWrongWithTheUnits(t *testing.T) {
	t.Parallel()
	root := unpack(t, build(t, earlier))
	targets, err := filepath.Glob("/usr/lib/systemd/system/*.target")
	require.NoError(t, err)
	require.NotEmpty(t, targets, "Debian's package systemd has them")
	for _, target := range targets { // what units need of others
		require.NoError(t, os.Symlink(target, filepath.Join(root, systemUnits, filepath.Base(target))))
	}
	require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin/kill"), nil, 0o755))
	for _, unit := range []string{daemonUnit, "lockkeeper@one.service", "lockkeeper-gc.service", "lockkeeper-gc.timer"} {
		require.Empty(t, output(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root="+root, unit), unit)
	}
}

func TestUnitsMayDoLittle(t *testing.T) {
	t.Parallel()
	root := unpack(t, build(t, earlier))
	for _, unit := range services {
		output(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+strconv.Itoa(exposure), "--root="+root, unit)
	}
}

func TestInstancesAreLikeTheOneDaemon(t *testing.T) {
	t.Parallel()
	one, instance := unit(t, daemonUnit), unit(t, "lockkeeper@.service")
	for _, c := range []struct{ of, one string }{
		{" %i: jobs", ": jobs"},
		{"/etc/lockkeeper/%i.yaml", "/etc/lockkeeper/lockkeeper.yaml"},
		{"EnvironmentFile=-/etc/default/lockkeeper-%i\nEnvironment=INSTANCE=%i\n", ""},
		{"=lockkeeper@%i\n", "=lockkeeper\n"},
		{"/lockkeeper@%i\n", "/lockkeeper\n"},
	} {
		require.Contains(t, instance, c.of)
		instance = strings.ReplaceAll(instance, c.of, c.one)
	}
	require.Equal(t, one, instance)
}

func TestStopMayTakeAsLongAsADrain(t *testing.T) {
	t.Parallel()
	const cleanup = 30 * time.Second // as in the complete configuration
	drain := scheduler.DefaultDrainFinish + scheduler.DefaultDrainCancel + cleanup + scheduler.DefaultDrainRelease
	seconds, err := strconv.Atoi(setting(t, daemonUnit, "TimeoutStopSec"))
	require.NoError(t, err)
	require.Greater(t, time.Duration(seconds)*time.Second, drain)
	require.Equal(t, "mixed", setting(t, daemonUnit, "KillMode"), "jobs must not be signalled when the daemon drains")
}

// unit is the text of a unit.
func unit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", name))
	require.NoError(t, err)
	return string(text)
}

func setting(t *testing.T, name, key string) string {
	t.Helper()
	_, after, found := strings.Cut(unit(t, name), "\n"+key+"=")
	require.True(t, found, key)
	value, _, _ := strings.Cut(after, "\n")
	return value
}
