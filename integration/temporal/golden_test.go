package temporal_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apihistory "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
)

var rewrite = flag.Bool("histories", false, "write the recorded histories of workflows anew")

// record replays the history of a workflow, and writes it where the tests of package
// temporal replay it again and again, if it is to be written anew.
func record(t *testing.T, c client.Client, workflow, file string, register func(worker.WorkflowRegistry)) {
	t.Helper()
	events := &apihistory.History{Events: devserver.History(t, c, workflow, "")}
	replayer := worker.NewWorkflowReplayer()
	register(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, events))
	if *rewrite {
		text, err := temporalproto.CustomJSONMarshalOptions{Indent: "  "}.Marshal(events)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
}
