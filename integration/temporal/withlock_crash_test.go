package temporal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// workerProcess is the environment variable that makes this binary a worker, as
// its processOptions say.
const workerProcess = "LOCKKEEPER_TEST_WORKER"

type processOptions struct {
	Temporal, Namespace, Queue, ZooKeeper, Root string
	Session                                     time.Duration
}

// beWorker runs a worker until standard input ends.
func beWorker() int {
	if err := workUntilEOF(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func workUntilEOF() error {
	var o processOptions
	if err := json.Unmarshal([]byte(os.Getenv(workerProcess)), &o); err != nil {
		return err
	}
	locks, err := recipes.NewClient(recipes.Config{Servers: []string{o.ZooKeeper}, Chroot: o.Root, SessionTimeout: o.Session})
	if err != nil {
		return err
	}
	g, err := lockguard.New(locks)
	if err != nil {
		return err
	}
	p, err := temporal.NewPlugin(g)
	if err != nil {
		return err
	}
	c, err := client.Dial(client.Options{HostPort: o.Temporal, Namespace: o.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	y := &yard{came: make(chan struct{}, 1000), blocked: make(chan time.Time, 1000), told: make(chan time.Time, 1000)}
	w := worker.New(c, o.Queue, worker.Options{Plugins: []worker.Plugin{p}})
	y.register(w)
	if err := w.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	w.Stop()
	return locks.Close(context.Background())
}

// workElsewhere starts a worker in a process of its own. It ends with the test, or
// when it is killed.
func (y *yard) workElsewhere(namespace string, session time.Duration) (kill func()) {
	y.t.Helper()
	o, err := json.Marshal(processOptions{
		Temporal: temporals.Server(y.t).Addr(), Namespace: namespace, Queue: y.queue,
		ZooKeeper: zookeeper.Server(y.t).Addr(), Root: y.root, Session: session,
	})
	require.NoError(y.t, err)
	self, err := os.Executable()
	require.NoError(y.t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), workerProcess+"="+string(o))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(y.t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(y.t, err)
	require.NoError(y.t, child.Start())
	y.t.Cleanup(func() {
		_ = stdin.Close()
		if err := child.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			y.t.Error(err)
		}
		_ = child.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(y.t, err)
	require.Equal(y.t, "ready\n", line)
	return func() { require.NoError(y.t, child.Process.Signal(syscall.SIGKILL)) }
}

// crash starts a workflow whose lock is kept by a process that is then killed,
// while another worker is there and a rival waits for the lock.
func crash(t *testing.T, session time.Duration, m migration) (y *yard, run client.WorkflowRun, rival <-chan lockguard.Token) {
	t.Helper()
	y = newYard(t)
	namespace := temporals.Server(t).Namespace(t)
	y.c = temporals.Server(t).ClientIn(t, namespace)
	kill := y.workElsewhere(namespace, session)
	run = y.start(m)
	y.sleeping(run)
	turn := make(chan lockguard.Token, 1)
	g := y.guard()
	go func() {
		_ = g.Do(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope, NeverPreempts: true}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			turn <- hold.Token()
			return nil
		})
	}()
	y.work(func(c *recipes.Config) { c.SessionTimeout = session })
	kill()
	return y, run, turn
}

func TestLockOfAWorkerThatIsKilledIsTakenOverWithTheSameToken(t *testing.T) {
	t.Parallel()
	// given sessions that last longer than Temporal needs to notice
	y, run, rival := crash(t, 15*time.Second, migration{
		Steps: []string{"step"}, Then: 18 * time.Second, After: []string{"step"}, Heartbeat: 2 * time.Second,
	})

	// then the workflow goes on under the same token, and nobody has had the lock
	reports, err := y.result(run)
	require.NoError(t, err)
	require.Len(t, reports, 2)
	require.Len(t, slices.Compact(reports), 1, "%v", reports)
	require.Greater(t, wait(t, rival, "the rival's turn"), reports[0].Token)
}

func TestLockOfAWorkerThatIsKilledIsLostWhenTheSessionIsTooShort(t *testing.T) {
	t.Parallel()
	// given sessions that end before Temporal notices
	y, run, rival := crash(t, 3*time.Second, migration{
		Steps: []string{"step"}, Then: 5 * time.Second, After: []string{"step"}, Heartbeat: 8 * time.Second, Again: true,
	})

	// then the rival has the lock first, and the workflow does all of it again
	reports, err := y.result(run)
	require.NoError(t, err)
	between := wait(t, rival, "the rival's turn")
	last := reports[len(reports)-1]
	require.Equal(t, []report{last, last}, reports[len(reports)-2:], "%v", reports)
	require.Less(t, reports[0].Token, between)
	require.Greater(t, last.Token, between)
}

func TestLockThatWasGrantedInTimeSurvivesThatNoWorkerIsThere(t *testing.T) {
	t.Parallel()
	// given a lock that was to be granted within a second, and was, when there is no
	// worker any more for longer than that
	y := newYard(t)
	namespace := temporals.Server(t).Namespace(t)
	y.c = temporals.Server(t).ClientIn(t, namespace)
	kill := y.workElsewhere(namespace, 30*time.Second)
	run := y.start(migration{Steps: []string{"step"}, Then: 10 * time.Second, After: []string{"step"}, Heartbeat: time.Second, Patience: new(time.Second)})
	y.sleeping(run)
	kill()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(devserver.History(t, y.c, run.GetID(), run.GetRunID()), func(e *historypb.HistoryEvent) bool {
			return e.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
		})
	}, patience, 100*time.Millisecond)

	// when there is one again, then it takes the lock over
	y.work()
	reports, err := y.result(run)
	require.NoError(t, err)
	require.Len(t, reports, 2)
	require.Len(t, slices.Compact(reports), 1, "%v", reports)
	y.isFree(y.guard())
}

func TestActivityThatFindsTheLockLostHasItAskedForAnewAtOnce(t *testing.T) {
	t.Parallel()
	// given a session that has ended long before Temporal notices, and an activity that
	// is the first to know
	y, run, rival := crash(t, 3*time.Second, migration{
		Steps: []string{"step"}, Then: 4 * time.Second, After: []string{"step"}, Heartbeat: 20 * time.Second, Again: true,
	})

	// then the workflow does all of it again
	reports, err := y.result(run)
	require.NoError(t, err)
	between := wait(t, rival, "the rival's turn")
	last := reports[len(reports)-1]
	require.Equal(t, []report{last, last}, reports[len(reports)-2:], "%v", reports)
	require.Less(t, reports[0].Token, between)
	require.Greater(t, last.Token, between)
}

func TestLossOfTheSessionEndsTheHoldOfAWorkflow(t *testing.T) {
	t.Parallel()
	for again, want := range map[bool]string{false: temporal.ErrTypeLockLost, true: ""} {
		y := newYard(t)
		proxy := newProxy(t)
		y.work(func(c *recipes.Config) { c.Servers, c.SessionTimeout = []string{proxy.Addr()}, 3*time.Second })
		run := y.start(migration{Steps: []string{"step"}, Then: 10 * time.Second, Again: again})
		y.sleeping(run)

		// when ZooKeeper is away for longer than a session lasts
		require.NoError(t, proxy.Cut())
		token := y.said()[0].Token
		y.isFree(y.guard())
		require.NoError(t, proxy.Pass())

		// then the workflow is told, or does it again
		reports, err := y.result(run)
		if want != "" {
			requireFailed(t, want, err)
			continue
		}
		require.NoError(t, err)
		require.Greater(t, reports[len(reports)-1].Token, token)
	}
}

func newProxy(t *testing.T) *netfault.Proxy {
	t.Helper()
	return netfault.New(t, zookeeper.Server(t).Addr())
}

func TestWorkflowThatIsResetGetsTheLockAnew(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	namespace := temporals.Server(t).Namespace(t)
	y.c = temporals.Server(t).ClientIn(t, namespace)
	y.work()

	// given a workflow that holds its lock
	run := y.start(migration{Steps: []string{"step"}, Then: 3 * time.Second})
	y.sleeping(run)

	// when it is reset to its beginning
	reset, err := y.c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		Reason: "test", RequestId: devserver.Name(t), WorkflowTaskFinishEventId: 4,
	})
	require.NoError(t, err)

	// then the new run has the lock, with a token of its own
	reports, err := y.result(y.c.GetWorkflow(t.Context(), run.GetID(), reset.GetRunId()))
	require.NoError(t, err)
	require.Greater(t, reports[0].Token, y.said()[0].Token)
	y.isFree(y.guard())
}
