package temporaltesting

import (
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/temporal"
)

// A Named workflow is registered under a name of its own.
type Named struct {
	Name     string
	Workflow any // the function
}

// Replay replays recorded histories, as workers do that take a workflow over, with
// the plugin installed: all JSON files of histories, at any depth, each in a subtest. A change of a
// workflow after which one does not fit would break the runs that are under way. Code of a
// workflow that never yields is ended by the timeout of go test: the SDK's second would be too
// short for a busy machine.
//
// Workflows are functions, or Named if they are registered under another name. The
// options are those of the plugin in production. The files are as Record writes
// them, or `temporal workflow show --output json`.
//
//	temporaltesting.Replay(t, os.DirFS("testdata/histories"), []any{Migrate}, temporal.Declare("Copy", lock))
func Replay(t *testing.T, histories fs.FS, workflows []any, options ...temporal.PluginOption) {
	t.Helper()
	files, err := historyFiles(histories)
	if err != nil {
		t.Fatalf("temporaltesting: the histories: %v", err)
	}
	if len(files) == 0 {
		t.Fatalf("temporaltesting: there is no history to replay: no file that ends with .json; Record makes one")
	}
	plugin := New(t).Plugin(options...)
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".json"), func(t *testing.T) {
			if err := replay(histories, file, workflows, plugin); err != nil {
				t.Fatalf("temporaltesting: %v", err)
			}
		})
	}
}

func historyFiles(histories fs.FS) (files []string, err error) {
	err = fs.WalkDir(histories, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".json") {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// replay replays one file.
func replay(histories fs.FS, file string, workflows []any, plugin worker.Plugin) error {
	recorded, err := read(histories, file)
	if err != nil {
		return err
	}
	r := replayer{workflows: workflows, plugin: plugin}
	why := r.replay(recorded.Events)
	if why == nil {
		return nil
	}
	return fmt.Errorf("history %s of workflow %s does not fit %s:\n%w",
		file, typeOf(recorded), r.where(recorded.Events), why)
}

func read(histories fs.FS, file string) (*history.History, error) {
	f, err := histories.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	recorded, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s is no history: %w", file, err)
	}
	return recorded, nil
}

func typeOf(h *history.History) string {
	if len(h.Events) == 0 {
		return "?"
	}
	return h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
}

type replayer struct {
	workflows []any
	plugin    worker.Plugin
}

func (r replayer) replay(events []*history.HistoryEvent) (err error) {
	once, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		Plugins: []worker.Plugin{r.plugin}, DisableDeadlockDetection: true, // as testTimeout: a busy machine is slow
	})
	if err != nil {
		return err
	}
	for _, w := range r.workflows {
		if named, ok := w.(Named); ok {
			once.RegisterWorkflowWithOptions(named.Workflow, workflow.RegisterOptions{Name: named.Name})
			continue
		}
		once.RegisterWorkflow(w)
	}
	return once.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		&history.History{Events: events})
}

// where says from where on a history does not fit: the shortest part of it that
// does not, and what the workflow did then.
func (r replayer) where(events []*history.HistoryEvent) string {
	var tasks []int // at which a task of the workflow is completed
	for i, e := range events {
		if e.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, i)
		}
	}
	for n, i := range tasks {
		end := len(events) // of what the workflow did in that task
		for j := i + 1; j < len(events); j++ {
			if events[j].GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
				end = j
				break
			}
		}
		if end < 3 || r.replay(slices.Clone(events[:end])) == nil {
			continue
		}
		did := events[i+1:]
		if n+1 < len(tasks) {
			did = events[i+1 : tasks[n+1]]
		}
		return fmt.Sprintf("from event %d on, where the workflow did this: %s", events[i].GetEventId(), describe(did))
	}
	return "at its end"
}

// describe lists what came of the commands of one task.
func describe(events []*history.HistoryEvent) string {
	var all []string
	for _, e := range events {
		if text, ok := command(e); ok {
			all = append(all, fmt.Sprintf("%d %s", e.GetEventId(), text))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// command says what a workflow did; false if the event is not of its making.
func command(e *history.HistoryEvent) (string, bool) {
	name := e.GetEventType().String()
	switch e.GetEventType() {
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return name + " " + e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), true
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return name + " " + e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowType().GetName(), true
	case enums.EVENT_TYPE_TIMER_STARTED:
		return name + " " + e.GetTimerStartedEventAttributes().GetStartToFireTimeout().AsDuration().String(), true
	case enums.EVENT_TYPE_MARKER_RECORDED:
		return name + " " + e.GetMarkerRecordedEventAttributes().GetMarkerName(), true
	case enums.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		return name + " " + e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName(), true
	case enums.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED, enums.EVENT_TYPE_TIMER_CANCELED,
		enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enums.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
		enums.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, enums.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED:
		return name, true
	default:
		return "", false
	}
}
