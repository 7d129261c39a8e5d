package jobs

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

var errOver = errors.New("over")

var nothing = Func(func(context.Context, Run) error { return nil })

func TestJobValidateTellsAllAtOnce(t *testing.T) {
	job := Job{
		Name:    "nightly/backup",
		Timeout: -time.Second,
		Requirements: []lockguard.Requirement{
			{Scope: "", Terms: priority.Terms{Priority: math.MaxInt32}},
			{Scope: "b", Terms: priority.Terms{CleanupTimeout: time.Second}},
			{Scope: "b"},
		},
		Work: WithCleanup(&Command{}, nothing),
	}
	err := job.Validate()
	var fields []string
	for _, problem := range err.(interface{ Unwrap() []error }).Unwrap() {
		var r *lockguard.RequestError
		require.ErrorAs(t, problem, &r)
		fields = append(fields, r.Field)
	}
	require.Equal(t, []string{"name", "timeout", "locks[0].scope", "locks[0].priority", "locks[2].scope", "run.exec", "locks[0].cleanup_timeout", "locks[2].cleanup_timeout"}, fields)
	require.ErrorContains(t, err, `name: "nightly/backup" contains '/'; write only letters, digits, dots, underscores and hyphens`)
	require.ErrorContains(t, err, `locks[2].scope: "b" is that of locks[1] already; write each scope once`)
	require.ErrorContains(t, err, "run.exec: names no program")
}

func TestInvalidJobs(t *testing.T) {
	for name, c := range map[string]struct {
		job  Job
		says string
	}{
		"no name":             {Job{Work: nothing}, "name: must not be empty"},
		"name starts oddly":   {Job{Name: "-a", Work: nothing}, `name: "-a" starts with '-'; start with a letter or a digit`},
		"name in other words": {Job{Name: "größe", Work: nothing}, `contains 'ö'`},
		"name too long":       {Job{Name: strings.Repeat("n", 129), Work: nothing}, "129 bytes long; write at most 128"},
		"no work":             {Job{Name: "a"}, "run: is missing"},
		"no function":         {Job{Name: "a", Work: Func(nil)}, "run: is nil"},
		"no command":          {Job{Name: "a", Work: (*Command)(nil)}, "run.exec: is nil"},
		"hook without a lock": {Job{Name: "a", Work: WithCleanup(nothing, nothing)}, "locks: the work has a cleanup hook"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.job.Validate()
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n", "one problem")
		})
	}
}

// guardFunc stands for a guard.
type guardFunc func(ctx context.Context, all []lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) error

func (f guardFunc) DoAll(ctx context.Context, all []lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) error {
	return f(ctx, all, work, hooks...)
}

func TestJobRunsUnderItsLocksWithItsHook(t *testing.T) {
	var steps []string
	step := func(name string) Func {
		return func(_ context.Context, run Run) error {
			steps = append(steps, name+" "+run.Job+" "+run.Attempt)
			return errOver
		}
	}
	job := Job{
		Name: "compact",
		Requirements: []lockguard.Requirement{
			{Scope: "cluster/users", Terms: priority.Terms{CleanupTimeout: time.Second}, Owner: "own"},
			{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: time.Second}},
		},
		Work: WithCleanup(step("work"), step("cleanup")),
	}
	err := job.Do(t.Context(), guardFunc(func(ctx context.Context, all []lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) error {
		require.Len(t, all, 2)
		require.Equal(t, "cluster/users", all[0].Scope, "in the order of the job")
		require.Equal(t, "own", all[0].Owner)
		require.Equal(t, "compact", all[1].Owner)
		require.Len(t, hooks, 1)
		return errors.Join(work(ctx), hooks[0](ctx))
	}), Run{Attempt: "7"})
	require.ErrorIs(t, err, errOver)
	require.Equal(t, []string{"work compact 7", "cleanup compact 7"}, steps)
	require.Empty(t, job.Requirements[1].Owner, "the job itself is left alone")
}

func TestJobWithoutALockNeedsNoGuard(t *testing.T) {
	job := Job{Name: "a", Work: Func(func(context.Context, Run) error { return errOver })}
	require.Equal(t, errOver, job.Do(t.Context(), nil, Run{}))
}

func TestPanicOfTheWorkIsAnError(t *testing.T) {
	job := Job{Name: "a", Work: Func(func(context.Context, Run) error { panic(errOver) })}
	err := job.Do(t.Context(), nil, Run{Attempt: "a"}) // which labels its goroutine
	var p *lockguard.PanicError
	require.ErrorAs(t, err, &p)
	require.ErrorIs(t, err, errOver)
	require.Contains(t, string(p.Stack), "TestPanicOfTheWorkIsAnError")
}

func TestTimeoutEndsTheWorkWhateverItReturns(t *testing.T) {
	own := &TimeoutError{Job: "slow", Timeout: time.Minute}
	for name, returned := range map[string]error{"its cause": own, "nothing": nil, "its context": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := Job{Name: "slow", Timeout: time.Minute, Work: Func(func(ctx context.Context, _ Run) error {
					<-ctx.Done()
					return returned
				})}
				work, _ := job.Bind(Run{})
				started := time.Now()

				err := work(t.Context())

				require.Equal(t, time.Minute, time.Since(started))
				require.ErrorIs(t, err, lockguard.ErrStopped, "so that its hooks run")
				require.ErrorAs(t, err, new(*TimeoutError))
				require.ErrorContains(t, err, `job "slow" took longer than its timeout 1m0s`)
				if name == "its context" {
					require.ErrorIs(t, err, returned)
				}
			})
		})
	}
}

func TestTimeoutDoesNotCountTheWaitForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := Job{
			Name: "a", Timeout: time.Minute,
			Requirements: []lockguard.Requirement{{Scope: "s"}},
			Work:         Func(func(ctx context.Context, _ Run) error { return ctx.Err() }),
		}
		require.NoError(t, job.Do(t.Context(), guardFunc(func(ctx context.Context, _ []lockguard.Requirement, work func(context.Context) error, _ ...lockguard.Hook) error {
			<-time.After(time.Hour)
			return work(ctx)
		}), Run{}))
	})
}

func TestRequirementsAreFoundByTheNameAndLabelsOfTheirJob(t *testing.T) {
	own := map[string]string{"tier": "gold"}
	job := Job{
		Name: "nightly", Labels: map[string]string{"team": "orders"},
		Requirements: []lockguard.Requirement{{Scope: "a"}, {Scope: "b", Class: "{letter}", Owner: "ana", Job: "other", Labels: own}},
	}

	owned := job.Owned()

	require.Equal(t, lockguard.Requirement{Scope: "a", Class: "a", Owner: "nightly", Job: "nightly", Labels: job.Labels}, owned[0])
	require.Equal(t, job.Requirements[1], owned[1])
	require.Empty(t, job.Requirements[0].Job, "the job is as it was")
}

func TestLabelsThatCannotBeWrittenAreRefused(t *testing.T) {
	job := Job{Name: "nightly", Work: Func(nil), Labels: map[string]string{"a b": "x", "team": "a\nb"}}
	err := job.Validate()
	require.ErrorContains(t, err, `labels[a b]: the name "a b" has ' ' in it`)
	require.ErrorContains(t, err, `labels[team]: the value "a\nb" has a control character`)
}
