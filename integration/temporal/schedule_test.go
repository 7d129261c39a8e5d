package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// schedules reads the jobs of a configuration that are schedules.
func schedules(t *testing.T, jobs string) []temporal.Schedule {
	t.Helper()
	cfg, err := config.Parse("lockkeeper.yaml", []byte("version: 1\ntemporal: {schedules: true}\njobs:\n"+jobs), config.Options{})
	require.NoError(t, err)
	t.Cleanup(cfg.Close)
	return cfg.Schedules
}

const (
	moveJob   = "  move: {schedule: \"0 4 * * 1-5\", overlap: buffer-one, jitter: 5m, misfire: {window: 1h}, retry: 2, locks: [{scope: db, priority: 20}], run: {temporal: {workflow: Move, task_queue: orders, args: [all, {dry: true}], run_timeout: 1h, id_prefix: eu-}}}\n"
	reportJob = "  report: {schedule: \"@every 1h/15m\", pause_after_failures: 1, run: {temporal: {workflow: Report, task_queue: orders}}}\n"
)

// A planner keeps schedules, as a daemon does.
type planner struct {
	*testing.T
	client  client.Client
	orphans temporal.Orphans
	paused  map[string]string
}

func (p *planner) sync(root, set string, all []temporal.Schedule) (temporal.ScheduleChanges, error) {
	p.Helper()
	keeper, err := temporal.NewSchedules(temporal.SchedulesConfig{
		Client: p.client, Orphans: p.orphans, Root: root, Set: set,
		Paused: func(j jobs.Job) (string, bool) { why, ok := p.paused[j.Name]; return why, ok },
	})
	require.NoError(p, err)
	return keeper.Sync(p.Context(), all)
}

func (p *planner) changes(all []temporal.Schedule) temporal.ScheduleChanges {
	p.Helper()
	changes, err := p.sync("/lockkeeper", "", all)
	for range 5 { // a busy server takes longer than a call may, and what is missing is done by the next one
		if !errors.As(err, new(*serviceerror.DeadlineExceeded)) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		var more temporal.ScheduleChanges
		more, err = p.sync("/lockkeeper", "", all)
		changes.Created, changes.Updated = append(changes.Created, more.Created...), append(changes.Updated, more.Updated...)
	}
	require.NoError(p, err)
	return changes
}

func (p *planner) describe(job string) *client.ScheduleDescription {
	p.Helper()
	is, err := p.client.ScheduleClient().GetHandle(p.Context(), "lockkeeper:/lockkeeper:"+job).Describe(p.Context())
	require.NoError(p, err)
	return is
}

func TestSchedulesAreKeptAsTheFileSays(t *testing.T) {
	p := &planner{T: t, client: dial(t), paused: map[string]string{}}

	// given jobs of which nothing is there
	both := schedules(t, moveJob+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Created: []string{"move", "report"}}, p.changes(both))
	is := p.describe("move")
	action := is.Schedule.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, []any{"eu-move", "Move", "orders", time.Hour, int32(3), 3}, []any{
		action.ID, action.Workflow, action.TaskQueue, action.WorkflowRunTimeout, action.RetryPolicy.MaximumAttempts, action.Priority.PriorityKey,
	})
	require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, is.Schedule.Policy.Overlap)
	require.Equal(t, time.Hour, is.Schedule.Policy.CatchupWindow)
	require.True(t, p.describe("report").Schedule.Policy.PauseOnFailure)
	require.Equal(t, 5*time.Minute, is.Schedule.Spec.Jitter)

	// then the same once more changes nothing
	require.False(t, p.changes(both).Any())

	// and what is changed, here or there, is set right, and nothing else
	other := schedules(t, strings.Replace(moveJob, "run_timeout: 1h", "run_timeout: 2h", 1)+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(other))
	require.Equal(t, 2*time.Hour, p.describe("move").Schedule.Action.(*client.ScheduleWorkflowAction).WorkflowRunTimeout)
	require.False(t, p.changes(other).Any())
	require.NoError(t, p.client.ScheduleClient().GetHandle(t.Context(), "lockkeeper:/lockkeeper:report").Update(t.Context(), client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			in.Description.Schedule.Spec.Intervals[0].Offset = 0
			return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
		},
	}))
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"report"}}, p.changes(other))
	require.Equal(t, 15*time.Minute, p.describe("report").Schedule.Spec.Intervals[0].Offset)

	// and each part of a job counts
	for _, change := range [][2]string{
		{"0 4 * * 1-5", "0 4 * * 1-6"},
		{"buffer-one", "skip"},
		{"jitter: 5m", "jitter: 6m"},
		{"window: 1h", "window: 2h"},
		{"retry: 2", "retry: 3"},
		{"scope: db", "scope: dbs"},
		{"priority: 20", "priority: 30"},
		{"workflow: Move", "workflow: Moves"},
		{"queue: orders", "queue: users"},
		{"dry: true", "dry: false"},
		{"id_prefix: eu-", "id_prefix: us-"},
	} {
		require.Contains(t, moveJob, change[0])
		changed := schedules(t, strings.Replace(moveJob, change[0], change[1], 1)+reportJob)
		p.changes(both)
		require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(changed), "%v", change)
		require.False(t, p.changes(changed).Any(), "%v", change)
	}
}

func TestAPausedJobIsAPausedSchedule(t *testing.T) {
	t.Parallel()
	p := &planner{T: t, client: dial(t), paused: map[string]string{"report": "paused by ana: repair"}}
	both := schedules(t, moveJob+reportJob)
	p.changes(both)
	require.True(t, p.describe("report").Schedule.State.Paused)
	require.Equal(t, "lockkeeper: paused by ana: repair", p.describe("report").Schedule.State.Note)
	require.False(t, p.changes(both).Any())
	p.paused = map[string]string{"move": "disk full"}
	require.Equal(t, temporal.ScheduleChanges{Paused: []string{"move"}, Resumed: []string{"report"}}, p.changes(both))
	p.paused = nil
	p.changes(both)

	// what somebody has paused in Temporal stays so, also when the job changes
	require.NoError(t, p.client.ScheduleClient().GetHandle(t.Context(), "lockkeeper:/lockkeeper:move").Pause(t.Context(), client.SchedulePauseOptions{Note: "bob"}))
	changed := schedules(t, strings.Replace(moveJob, "1h, id", "2h, id", 1)+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(changed))
	require.True(t, p.describe("move").Schedule.State.Paused)
	require.Equal(t, "bob", p.describe("move").Schedule.State.Note)
}

func TestSchedulesWithoutJobs(t *testing.T) {
	t.Parallel()
	for _, orphans := range []temporal.Orphans{temporal.OrphansPause, temporal.OrphansDelete, temporal.OrphansKeep} {
		t.Run(string(orphans), func(t *testing.T) {
			// given schedules of this set, of another one, of another root, and of somebody else
			p := &planner{T: t, client: dial(t), orphans: orphans}
			both := schedules(t, moveJob+reportJob)
			p.changes(both)
			_, err := p.sync("/lockkeeper", "other", schedules(t, strings.Replace(moveJob, "move:", "copy:", 1)))
			require.NoError(t, err)
			_, err = p.sync("/tenants/a", "", schedules(t, moveJob))
			require.NoError(t, err)
			_, err = p.client.ScheduleClient().Create(t.Context(), client.ScheduleOptions{ID: "theirs", Spec: client.ScheduleSpec{CronExpressions: []string{"@daily"}}, Action: &client.ScheduleWorkflowAction{Workflow: "Theirs", TaskQueue: "theirs"}})
			require.NoError(t, err)
			h := &house{T: t}
			h.within("all are listed", func() bool { return len(p.listed()) == 5 })

			// when a job goes
			changes := p.changes(both[:1])

			// then its schedule does, alone
			switch orphans {
			case temporal.OrphansPause:
				require.Equal(t, []string{"report"}, changes.Orphaned)
				require.True(t, p.describe("report").Schedule.State.Paused)
				require.False(t, p.changes(both[:1]).Any())
				require.Equal(t, temporal.ScheduleChanges{Resumed: []string{"report"}}, p.changes(both), "the job is back")
			case temporal.OrphansDelete:
				require.Equal(t, []string{"report"}, changes.Orphaned)
				_, err := p.client.ScheduleClient().GetHandle(t.Context(), "lockkeeper:/lockkeeper:report").Describe(t.Context())
				require.ErrorAs(t, err, new(*serviceerror.NotFound))
			case temporal.OrphansKeep:
				require.False(t, changes.Any())
			}
			for _, id := range []string{"lockkeeper:/lockkeeper:move", "lockkeeper:/lockkeeper:copy", "lockkeeper:/tenants/a:move", "theirs"} {
				is, err := p.client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
				require.NoError(t, err)
				require.False(t, is.Schedule.State.Paused, id)
			}
		})
	}
}

func (p *planner) listed() (ids []string) {
	p.Helper()
	list, err := p.client.ScheduleClient().List(p.Context(), client.ScheduleListOptions{})
	require.NoError(p, err)
	for list.HasNext() {
		entry, err := list.Next()
		require.NoError(p, err)
		ids = append(ids, entry.ID)
	}
	return ids
}

func TestAScheduleThatIsNotOursIsLeftAlone(t *testing.T) {
	p := &planner{T: t, client: dial(t)}
	_, err := p.client.ScheduleClient().Create(t.Context(), client.ScheduleOptions{ID: "lockkeeper:/lockkeeper:move", Spec: client.ScheduleSpec{CronExpressions: []string{"@daily"}}, Action: &client.ScheduleWorkflowAction{Workflow: "Theirs", TaskQueue: "theirs"}})
	require.NoError(t, err)
	changes, err := p.sync("/lockkeeper", "", schedules(t, moveJob+reportJob))
	require.ErrorContains(t, err, "which is not lockkeeper's")
	require.Equal(t, []string{"report"}, changes.Created, "the others are kept all the same")
	require.Equal(t, "Theirs", p.describe("move").Schedule.Action.(*client.ScheduleWorkflowAction).Workflow)
	_, err = p.sync("/lockkeeper", "other", schedules(t, reportJob))
	require.ErrorContains(t, err, "belongs to the set lockkeeper, not to other")
}

// The server starts workflows at the very times at which daemons would.
func TestSchedulesAreDueWhenTheJobsAre(t *testing.T) {
	p := &planner{T: t, client: dial(t)}
	var text strings.Builder
	for i, when := range []string{
		`schedule: "*/15 * * * *"`, `schedule: "30 2 * * *"`, `schedule: "30 2 * * *", timezone: America/New_York, dst: {gap: skip}`,
		`schedule: "*/20 0,3-23 * * *", timezone: Europe/Berlin`, `schedule: "0 3,4 * * 0", timezone: Europe/Berlin`,
		`schedule: "0 12 13 * fri"`, `schedule: "0 0 * * 7"`, `schedule: "0 0 29 2 *"`, `schedule: "H H(2-5) * * *"`, `schedule: "@every 7m"`, `schedule: "@every 1h/15m"`,
		`schedule: "@every 90m/H"`, `schedule: "20 10 4 * * 1-5"`, `schedule: "0 9 * * *", timezone: Asia/Tokyo`, `schedule: "15 3,4 * * *", timezone: America/New_York`,
		`schedule: "5-50/15 8-18/2 1-7,15 */3 mon,wed"`,
	} {
		fmt.Fprintf(&text, "  job%02d: {%s, run: {temporal: {workflow: Move, task_queue: orders}}}\n", i, when)
	}
	all := schedules(t, text.String())
	p.changes(all)
	require.False(t, p.changes(all).Any())
	namespace := ""
	for _, s := range all {
		should, err := scheduler.ParseJob(s.Job)
		require.NoError(t, err)
		for _, from := range []time.Time{time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 28, 0, 0, 0, 0, time.UTC)} {
			to := from.Add(3 * 24 * time.Hour)
			if namespace == "" {
				namespace = namespaceOf(t, p.client)
			}
			found, err := p.client.WorkflowService().ListScheduleMatchingTimes(t.Context(), &workflowservice.ListScheduleMatchingTimesRequest{
				Namespace: namespace, ScheduleId: s.ID("/lockkeeper"), StartTime: timestamppb.New(from.Add(-time.Second)), EndTime: timestamppb.New(to),
			})
			require.NoError(t, err)
			var is, want []string
			for _, at := range found.GetStartTime() {
				is = append(is, at.AsTime().Format(time.RFC3339))
			}
			for at := should.Next(from.Add(-time.Second)); !at.IsZero() && !at.After(to); at = should.Next(at) {
				want = append(want, at.UTC().Format(time.RFC3339))
			}
			require.Equal(t, want, is, "%s %s from %s", s.Job.Schedule, s.Job.TimeZone, from)
		}
	}
}

// namespaceOf is the namespace of a client of dial.
func namespaceOf(t *testing.T, c client.Client) string {
	t.Helper()
	namespaces, err := c.WorkflowService().ListNamespaces(t.Context(), &workflowservice.ListNamespacesRequest{PageSize: 1000})
	require.NoError(t, err)
	prefix := devserver.Name(t)
	prefix = prefix[:len(prefix)-8]
	for _, n := range namespaces.GetNamespaces() {
		if name := n.GetNamespaceInfo().GetName(); strings.HasPrefix(name, prefix) {
			return name
		}
	}
	require.FailNow(t, "the namespace is not there")
	return ""
}

func TestTheDaemonLeavesItToTheServer(t *testing.T) {
	// given a daemon whose job is due each second, and the server's to start
	h := newHouse(t)
	server := temporals.Server(t)
	namespace := server.Namespace(t)
	c := server.ClientIn(t, namespace)
	h.write("lockkeeper.yaml", fmt.Sprintf(`version: 1
zookeeper: {session_timeout: 4s}
temporal: {address: %q, namespace: %s}
drain_timeout: 0s
jobs:
  move: {schedule: "@every 1s", run: {temporal: {workflow: Move, task_queue: nobody}}}
  tidy: {schedule: "@every 1s", run: [sh, -c, 'echo tidied >> tidied']}
`, server.Addr(), namespace))
	d := h.daemon("--temporal-schedules")
	d.says("schedule created on the Temporal server", "job=move")
	h.within("the other job runs", func() bool { return strings.Count(h.read("tidied"), "\n") >= 3 })

	// then the server starts it, once for as long as the workflow lasts, and the daemon does not
	h.within("the server starts it", func() bool {
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType = 'Move'"})
		return err == nil && len(found.GetExecutions()) > 0
	})
	require.False(t, d.log.has("workflow is started"), "the daemon has started it")
	require.Contains(t, h.listed("jobs", "ls"), `"name": "tidy"`)
	h.write("scheduled.yaml", strings.Replace(h.read("lockkeeper.yaml"), "temporal: {", "temporal: {schedules: true, ", 1))
	ls, code := h.run("jobs", "ls", "-f", "scheduled.yaml")
	require.Zero(t, code, ls)
	require.Regexp(t, `(?m)^move +temporal `, ls)
	require.Regexp(t, `(?m)^tidy +(idle|running)`, ls)

	// and a pause of the job is one of the schedule
	out, code := h.run("jobs", "pause", "move", "-f", "scheduled.yaml", "-r", "repair", "--by", "ana")
	require.Zero(t, code, out)
	d.end(15)
	d = h.daemon("--temporal-schedules")
	d.says("schedule paused on the Temporal server", "job=move", "paused by ana: repair")
	root := h.root
	is, err := c.ScheduleClient().GetHandle(t.Context(), "lockkeeper:"+root+":move").Describe(t.Context())
	require.NoError(t, err)
	require.True(t, is.Schedule.State.Paused)
	require.NoError(t, errors.Join(c.ScheduleClient().GetHandle(t.Context(), "lockkeeper:"+root+":move").Delete(context.WithoutCancel(t.Context()))))
}
