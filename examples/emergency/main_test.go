package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

func TestItRunsOnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	tells(t, "")
}

// What the first run leaves behind is empty, and open to the next one.
func TestItRunsOnAnotherServerTwice(t *testing.T) {
	t.Parallel()
	server := shared.Server(t)
	for range 2 {
		tells(t, server.Addr())
		left, _, err := testbed.Shell(t, server).Children(root)
		require.NoError(t, err)
		require.Equal(t, []string{"clock"}, left)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	var out, problems bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"--zk", "localhost:port"}, &out, &problems))
	require.Contains(t, problems.String(), `"localhost:port"`)
	problems.Reset()
	require.Equal(t, 1, run(t.Context(), []string{"--zk", "127.0.0.1:1"}, &out, &problems))
	require.Contains(t, problems.String(), "127.0.0.1:1")
	require.Equal(t, 2, run(t.Context(), []string{"--keeper"}, &out, &problems))
	require.Empty(t, out.String())
}

// tells checks what the example tells, and what has come of it.
func tells(t *testing.T, zk string) {
	t.Helper()
	var out bytes.Buffer
	end, err := show(t.Context(), zk, &out)
	t.Logf("\n%s", out.String())
	require.NoError(t, err)

	// The victim learns why.
	var overridden *lockguard.OverriddenError
	require.ErrorAs(t, end.gaveWay, &overridden)
	require.Equal(t, lock.Mark{ID: incident, By: "ana", Reason: "repair by hand"}, overridden.Override)
	require.NotErrorAs(t, end.gaveWay, new(*lockguard.LostError), "it has cleaned up in time")
	var lost *lockguard.LostError
	require.ErrorAs(t, end.lost, &lost)
	require.Equal(t, lock.LossTaken, lost.Reason)
	require.Equal(t, "payments", lost.By)

	requireStory(t, out.String())
	for _, r := range end.records {
		writer := "digest:daemons"
		if r.Action == opstore.AuditApprovalDecide {
			writer = "digest:ana"
		}
		require.Equal(t, writer, r.Identity, "%s %s by %s", r.Action, r.Phase, r.By)
	}
	require.Nil(t, end.report.Broken)
	require.Nil(t, end.report.Untrusted, "only the daemons and ana can have written it")
	require.Empty(t, end.report.Foreign)
	require.Equal(t, len(end.records), end.report.Checked)
	require.Contains(t, out.String(), "Verified: ")
}

// mask hides what differs from run to run.
func mask(out string) string {
	out = regexp.MustCompile(`(?m)^ +\d+\.\d\ds  `).ReplaceAllString(out, "")
	out = regexp.MustCompile(`token \d+`).ReplaceAllString(out, "token N")
	return regexp.MustCompile(` {2,}`).ReplaceAllString(out, " ")
}

// requireStory checks what follows from what. Lines that come from two sides at
// the same time may come in either order, and so may the events of two requests:
// they are in different lists.
func requireStory(t *testing.T, out string) {
	t.Helper()
	told, _, found := strings.Cut(mask(out), "\n The audit trail:\n")
	require.True(t, found, out)
	for _, side := range [][]string{
		{
			"batch wants cluster/orders, at priority 20: nightly accounts",
			"batch has cluster/orders, token N",
			"ana writes into overrides.yaml: hold cluster/orders, for an hour (INC-4411)",
			"ana wants cluster/orders, at emergency priority: override INC-4411: repair by hand",
			"ana has cluster/orders, token N",
			"batch wants cluster/orders, at priority 20: nightly accounts",
			"batch waits for ana",
			"ana has repaired the orders, and takes the override out of the file",
			"batch has cluster/orders, token N",
			"payments wants cluster/orders, at priority 80: customers wait",
			"ana is woken up: an approval is open",
			"bob cannot approve it: he is no operator, and ZooKeeper refuses him",
			"ana approves a-0000000000, as digest:ana",
			"payments may take the lock by force: a-0000000000 by ana: payments are stuck",
			"payments has taken the lock from batch by force",
			"payments has cluster/orders, token N",
		},
		{
			"ana wants cluster/orders, at emergency priority: override INC-4411: repair by hand",
			"batch ! preempted: override INC-4411 of ana: repair by hand",
			"batch cleans up, still under the lock",
			"batch has cleaned up, and gives way",
			"batch wants cluster/orders, at priority 20: nightly accounts",
		},
		{"ana approves a-0000000000, as digest:ana", "payments has booked all payments"},
		{
			"payments wants cluster/orders, at priority 80: customers wait",
			"batch ! preempted: for payments, at priority 80",
			"batch ✗ has lost the lock: taken by payments",
		},
		{
			"batch ! preempted: for payments, at priority 80",
			"batch cleans up, still under the lock",
			"batch ✗ cleanup: the disk did not answer",
		},
		{
			"payments wants cluster/orders, at priority 80: customers wait",
			"payments ! batch is still at it: an approval is needed",
			"payments may take the lock by force: a-0000000000 by ana: payments are stuck",
		},
		{"ana approves a-0000000000, as digest:ana", "batch ✗ has lost the lock: taken by payments"},
	} {
		at := 0
		lines := strings.Split(told, "\n")
		for _, line := range side {
			for at < len(lines) && lines[at] != line {
				at++
			}
			require.Less(t, at, len(lines), "%q is not told, or not after what it follows from:\n%s", line, out)
			at++
		}
	}
	require.Equal(t, 2, strings.Count(told, "✗"), out)
	require.Equal(t, 1, strings.Count(told, "gives way"), out)
}
