package devserver_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
)

var shared devserver.Shared

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(leaveAnOrphan())
	}
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

func TestSharedServerRunsWorkflowsInANamespaceOfTheTest(t *testing.T) {
	// given
	server := shared.Server(t)
	c := server.Client(t)
	queue := work(t, c)

	// when
	run := greet(t, c, queue)

	// then
	var text string
	require.NoError(t, run.Get(t.Context(), &text))
	require.Equal(t, "hello", text)
	events := devserver.History(t, c, run.GetID(), run.GetRunID())
	require.Len(t, events, 5)
	_, err := server.Client(t).DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.ErrorAs(t, err, new(*serviceerror.NotFound), "a workflow of another namespace is seen")
}

func TestWorkflowsOnDiskOutliveAKill(t *testing.T) {
	server := devserver.Start(t, devserver.Settings{OnDisk: true})
	c := server.Client(t)
	run := greet(t, c, "no-worker-here")

	require.NoError(t, server.Kill())
	require.False(t, server.Alive())
	require.NoError(t, server.Restart(t.Context()))

	described, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, run.GetRunID(), described.GetWorkflowExecutionInfo().GetExecution().GetRunId())
}

func TestPausedServerDoesNotAnswerUntilResumed(t *testing.T) {
	// given
	server := devserver.Start(t, devserver.Settings{})
	c := server.Client(t)

	// when
	require.NoError(t, server.Pause())

	// then
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := c.CheckHealth(short, &client.CheckHealthRequest{})
	require.Error(t, err)

	// and when
	require.NoError(t, server.Resume())

	// then
	long, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	_, err = c.CheckHealth(long, &client.CheckHealthRequest{})
	require.NoError(t, err)
	require.NoError(t, server.Pause())
	require.NoError(t, server.Stop(), "a paused server can be stopped")
	require.False(t, server.Alive())
}

func TestDynamicConfigurationReachesTheServer(t *testing.T) {
	server := devserver.Start(t, devserver.Settings{Dynamic: map[string]string{"limit.maxIDLength": "50"}})
	c := server.ClientIn(t, "default")
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: strings.Repeat("x", 51), TaskQueue: "q"}, "Greet")
	require.ErrorAs(t, err, new(*serviceerror.InvalidArgument))
}

func TestFailedStartTellsWhy(t *testing.T) {
	_, err := devserver.Run(t.Context(), devserver.Settings{Dynamic: map[string]string{"no JSON": "{"}})
	require.ErrorContains(t, err, "invalid dynamic config values")
}

func TestStartGivesUpWhenItTakesTooLong(t *testing.T) {
	_, err := devserver.Run(t.Context(), devserver.Settings{StartTimeout: time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "not ready after 1ms")
}

func TestServerEndsWithItsParent(t *testing.T) {
	// given a process with a server
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"=1")
	said, err := parent.Output()

	// when it ends without a word, as by a panic
	require.ErrorContains(t, err, "signal: killed")

	// then
	orphan, err := strconv.Atoi(strings.TrimSpace(string(said)))
	require.NoError(t, err, "%s", said)
	harness.Eventually(t, func() bool { return gone(orphan) }, "it is gone")
}

const orphanVariable = "LOCKKEEPER_DEVSERVER_ORPHAN"

func leaveAnOrphan() int {
	server, err := devserver.Run(context.Background(), devserver.Settings{})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	// It has said what it says at its start: a later word into a broken pipe would end it as well.
	for !strings.Contains(server.LogTail(10), "Metrics:") {
		<-time.After(10 * time.Millisecond)
	}
	os.Stdout.WriteString(strconv.Itoa(server.PID()))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 1
}

// gone tells whether a process has ended, also before it was waited for.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestProgramIsTheOneOfTheModule(t *testing.T) {
	text, err := os.ReadFile("../../temporalserver/go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`github\.com/temporalio/cli v(\S+)`).FindSubmatch(text)
	require.Len(t, found, 2)
	require.Equal(t, devserver.Version, string(found[1]))
}

func TestMissingProgramSaysWhatToDo(t *testing.T) {
	t.Setenv("TEMPORAL_CLI", "/nowhere/temporal")
	_, err := devserver.Find()
	require.ErrorContains(t, err, "TEMPORAL_CLI=/nowhere/temporal cannot be run")

	t.Setenv("TEMPORAL_CLI", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err = devserver.Find()
	require.ErrorContains(t, err, "run `make setup`")
}

// work starts a worker for the length of the test, and returns its queue.
func work(t *testing.T, c client.Client) (queue string) {
	t.Helper()
	queue = devserver.Name(t)
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "hello", nil }, workflow.RegisterOptions{Name: "Greet"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return queue
}

func greet(t *testing.T, c client.Client, queue string) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: devserver.Name(t), TaskQueue: queue}, "Greet")
	require.NoError(t, err)
	return run
}
