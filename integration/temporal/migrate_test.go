package temporal_test

import (
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// migrated is the lock of the workflows of these tests.
var migrated = lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 5, CleanupTimeout: 20 * time.Second}}

// hotfix takes it by force.
var hotfix = lockguard.Requirement{Terms: priority.Terms{Priority: 9, Forceful: true}, Owner: "hotfix"}

// A migration is a workflow of several activities under one lock, as a test wants it. It returns their tokens.
type migration struct {
	Steps     []string   // activities, one after the other
	Waits     bool       // after them, for the signal "go on"
	After     []string   // activities after that
	Unlocked  bool       // it needs no lock, for comparison
	Next      *migration // what to continue as
	OnClose   bool
	Again     bool
	Heartbeat time.Duration // of the holder activity
}

// Migrate is the workflow.
func Migrate(ctx workflow.Context, m migration) (tokens []lockguard.Token, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	do := func(ctx workflow.Context, steps []string) error {
		for _, step := range steps {
			var token lockguard.Token
			if err := workflow.ExecuteActivity(ctx, step).Get(ctx, &token); err != nil {
				return err
			}
			tokens = append(tokens, token)
		}
		return nil
	}
	body := func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		if err := do(ctx, m.Steps); err != nil {
			return err
		}
		if m.Next != nil {
			return hold.ContinueAsNew(ctx, Migrate, *m.Next)
		}
		if m.Waits {
			signal := workflow.GetSignalChannel(ctx, "go on")
			if _, err := workflow.AwaitWithTimeout(ctx, time.Hour, func() bool { return signal.Len() > 0 }); err != nil {
				return err
			}
		}
		return do(ctx, m.After)
	}
	if m.Unlocked {
		return tokens, body(ctx, temporal.WorkflowHold{})
	}
	options := []temporal.WithLockOption{temporal.OnPreempt(func(ctx workflow.Context, _ temporal.Preemption) error {
		return workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil)
	})}
	if m.OnClose {
		options = append(options, temporal.ReleaseOnClose())
	}
	if m.Again {
		options = append(options, temporal.AgainAfterLoss())
	}
	if m.Heartbeat > 0 {
		options = append(options, temporal.KeptBy(temporal.KeeperOptions{HeartbeatTimeout: m.Heartbeat}))
	}
	err = temporal.WithLock(ctx, migrated, body, options...)
	return tokens, err
}

func (f *fixture) migrate(m migration) client.WorkflowRun {
	f.Helper()
	return f.execute(client.StartWorkflowOptions{}, Migrate, m)
}

// asleep waits until a migration has done its steps and waits for its signal.
func (f *fixture) asleep(run client.WorkflowRun) {
	f.Helper()
	eventually(f, func() bool { return f.has(run, enums.EVENT_TYPE_TIMER_STARTED) }, "the workflow waits")
}

// goOn sends the signal.
func (f *fixture) goOn(run client.WorkflowRun) {
	f.Helper()
	require.NoError(f, f.temporal.SignalWorkflow(f.Context(), run.GetID(), "", "go on", nil))
}

// sameToken checks that there are n tokens, all the same, and returns it.
func (f *fixture) sameToken(n int, tokens []lockguard.Token) lockguard.Token {
	f.Helper()
	require.Len(f, tokens, n)
	require.NotZero(f, tokens[0])
	for _, token := range tokens {
		require.Equal(f, tokens[0], token, "%v", tokens)
	}
	return tokens[0]
}
