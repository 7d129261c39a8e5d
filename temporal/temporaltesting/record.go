package temporaltesting

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
)

// recordTimeout bounds a recording.
const recordTimeout = time.Minute

// A Historian is what Record needs of a client. client.Client is one.
type Historian interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, longPoll bool,
		filter enums.HistoryEventFilterType) client.HistoryEventIterator
}

// Record writes the history of the current run of a workflow into a file, for
// Replay; as far as it has come, so that a workflow that waits can be recorded as
// well. All that the workflow was given and has made of it is in the file, as the
// server has it: look before it goes into a repository.
func Record(t testing.TB, c Historian, workflowID, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recordTimeout)
	defer cancel()
	recorded := &history.History{}
	events := c.GetWorkflowHistory(ctx, workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatalf("temporaltesting: the history of workflow %s is not read: %v", workflowID, err)
		}
		recorded.Events = append(recorded.Events, event)
	}
	text, err := protojson.MarshalOptions{Indent: " "}.Marshal(recorded)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o750)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatalf("temporaltesting: the history of workflow %s is not written: %v", workflowID, err)
	}
}

var _ Historian = client.Client(nil)
