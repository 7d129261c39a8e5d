package main

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// requested is a request that no daemon takes before it is withdrawn.
type requested struct {
	taken     bool // a daemon was faster than Withdraw
	lost      bool // its session has ended
	err       error
	withdrawn bool
}

func (r *requested) ID() string { return "r1" }

func (r *requested) AwaitTaken(ctx context.Context) error {
	if r.lost {
		return &ticks.RequestLostError{Job: "backup", ID: "r1"}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (r *requested) Withdraw(ctx context.Context) (bool, error) {
	r.withdrawn = ctx.Err() == nil
	return r.taken, r.err
}

// oneRun is a ledger that knows one run, which lives.
type oneRun struct{ id string }

func (l oneRun) State(context.Context, string) (ticks.State, error) {
	run := ticks.Run{ID: l.id, Host: "h2", PID: 71, ClaimedAt: time.Now(), Alive: true}
	return ticks.State{Job: "backup", Runs: []ticks.Run{run}}, nil
}

func (l oneRun) Await(ctx context.Context, job string, _ ticks.State) (ticks.State, error) {
	return l.State(ctx, job)
}

func TestARequestThatNoDaemonTakesIsWithdrawn(t *testing.T) {
	interrupt := &jobs.SignalError{Signal: syscall.SIGINT}
	for name, c := range map[string]struct {
		request requested
		signal  bool
		code    int
		text    string
	}{
		"no daemon":             {requested{}, false, 75, "job \"backup\" not started: no daemon has taken the request within 10s, and it is withdrawn; it runs already, on h2 (pid 71)"},
		"a daemon was faster":   {requested{taken: true}, false, 0, ""},
		"a signal":              {requested{}, true, 130, "job \"backup\" not started: SIGINT was received; the request is withdrawn"},
		"a signal, too late":    {requested{taken: true}, true, 130, "the run of the job \"backup\" goes on; see: lockkeeper jobs history backup"},
		"not withdrawn":         {requested{err: &lock.UnavailableError{}}, false, 75, ""},
		"a signal, in vain":     {requested{err: errors.New("no answer")}, true, 130, "SIGINT was received\nno answer"},
		"the session has ended": {requested{lost: true}, false, 75, "the request to run job \"backup\" is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given
				ctx, cancel := context.WithCancelCause(t.Context())
				if c.signal {
					cancel(interrupt)
				}
				defer cancel(nil)
				order := &runOrder{ledger: oneRun{id: "r1"}, job: "backup", within: 10 * time.Second, request: &c.request}

				// when
				err := order.awaitTaker(ctx)

				// then
				require.Equal(t, c.code, exitCode(err), "%v", err)
				require.Equal(t, !c.request.lost, c.request.withdrawn)
				if c.code == 0 {
					require.Equal(t, "h2", order.run().Host)
					return
				}
				require.ErrorContains(t, err, c.text)
			})
		})
	}
}

func TestARunWhoseDaemonDiesIsInterrupted(t *testing.T) {
	// given
	order := &runOrder{job: "backup", request: &requested{}, seen: ticks.State{Runs: []ticks.Run{{ID: "r1", Host: "h2", PID: 71}}}}
	require.True(t, order.ended())
	out := &program{stdout: t.Output(), stderr: t.Output(), output: choice{is: "table"}}

	// when
	dead := out.tellRun(order)
	order.seen = ticks.State{}
	forgotten := out.tellRun(order)

	// then
	require.Equal(t, exitFailed, exitCode(dead))
	require.Equal(t, exitFailed, exitCode(forgotten))
	require.ErrorContains(t, forgotten, "its history does not go back far enough")
}
