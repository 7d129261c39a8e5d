package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestExitCodeOfACommandThatRan(t *testing.T) {
	var (
		failed    = &jobs.ExitError{Command: "sh", Code: 3}
		preempted = &lockguard.PreemptedError{Scope: "db", By: "hotfix", Priority: 90, Grace: time.Second}
		lease     = &lockguard.LeaseExpiredError{Scope: "db", By: "hotfix"}
		session   = &lockguard.LostError{Scope: "db", Reason: lock.LossSession}
		overruled = &lockguard.OverriddenError{Scope: "db", Override: lock.Mark{ID: "INC-7", By: "ana"}}
		evicted   = &lockguard.LostError{Scope: "db", Reason: lock.LossOverridden, By: "ana"}
		taken     = &lockguard.LostError{Scope: "db", Reason: lock.LossTaken, By: "hotfix"}
		deleted   = &lockguard.LostError{Scope: "db", Reason: lock.LossDeleted}
	)
	stopped := func(cause error) *jobs.StoppedError {
		return &jobs.StoppedError{Command: "sh", Cause: cause, Exit: failed}
	}
	killed := func(cause error) *jobs.StoppedError {
		return &jobs.StoppedError{Command: "sh", Cause: cause, Killed: true}
	}
	for _, c := range []struct {
		name   string
		result error // of the command
		guard  error // what the guard has to say beyond that
		code   int
		silent bool
	}{
		{name: "succeeds", code: 0, silent: true},
		{name: "fails", result: failed, code: 3, silent: true},
		{name: "a signal of its own", result: &jobs.ExitError{Command: "sh", Signal: syscall.SIGABRT}, code: 134, silent: true},
		{name: "cannot be started", result: &jobs.StartError{Command: "sh", Err: errors.New("no guardian")}, code: 126},
		{name: "preempted", result: stopped(preempted), code: 76},
		{name: "preempted, and killed", result: killed(preempted), code: 76},
		{name: "preempted, and the lock taken at that moment", result: killed(preempted), guard: taken, code: 76},
		{name: "preempted, then lost", result: stopped(preempted), guard: session, code: 77},
		{name: "preempted when it had ended by itself", guard: preempted, code: 0, silent: true},
		{name: "preempted when it had failed by itself", result: failed, guard: preempted, code: 3, silent: true},
		{name: "lease over", result: stopped(lease), code: 76},
		{name: "overridden", result: stopped(overruled), code: 76},
		{name: "overridden, and the lock taken at that moment", result: killed(overruled), guard: evicted, code: 76},
		{name: "evicted for an override before it heard of that", guard: evicted, code: 77},
		{name: "lost", result: killed(session), code: 77},
		{name: "lost when it had ended by itself", guard: session, code: 77},
		{name: "taken before it heard that it was to go", guard: taken, code: 77},
		{name: "deleted by an administrator", result: killed(deleted), code: 77},
		{name: "at risk", result: stopped(lockguard.ErrAtRisk), code: 77},
		{name: "signal", result: stopped(&jobs.SignalError{Signal: syscall.SIGINT}), code: 130, silent: true},
		{name: "signal, and killed", result: killed(&jobs.SignalError{Signal: syscall.SIGTERM}), code: 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			guard := c.result
			if c.guard != nil {
				guard = errors.Join(c.guard, c.result)
			}
			err := finished(c.result, guard)
			require.Equal(t, c.code, exitCode(err))
			require.Equal(t, c.silent, err == nil || err.Error() == "", "said: %v", err)
		})
	}
}

func TestExitCodeOfACommandThatDidNotRun(t *testing.T) {
	busy := &lock.NotAcquiredError{Scope: "db", Holders: []lock.Contender{{Identity: priority.Identity{Owner: "compact"}, Terms: priority.Terms{Priority: 4}}}}
	for _, c := range []struct {
		name string
		err  error
		code int
		says string
	}{
		{"busy", busy, 75, `lock "db" not acquired: held by "compact" (priority 4); see: lockkeeper locks show db`},
		{"frozen", &lockguard.FrozenError{Scope: "db", Override: override.Override{ID: "INC-7", By: "ana", Reason: "disks"}, Err: &lock.NotAcquiredError{Scope: "db"}}, 75, `lock "db" not acquired: frozen by ana until`},
		{"overridden at once", &lockguard.OverriddenError{Scope: "db"}, 76, "the command was not started"},
		{"cleanup pending", &lock.CleanupPendingError{Scope: "db"}, 75, "see: lockkeeper locks show db"},
		{"evicted", &lock.EvictedError{Scope: "db"}, 75, "removed from the queue by an administrator"},
		{"no ZooKeeper", &lock.UnavailableError{Servers: []string{"zk:2181"}}, 75, "ZooKeeper at zk:2181 does not answer"},
		{"busy, and no ZooKeeper any more", &lock.NotAcquiredError{Scope: "db", Err: &lock.UnavailableError{Servers: []string{"zk:2181"}}}, 75, "zk:2181 does not answer"},
		{"anything else", errors.New("refused"), 75, "refused"},
		{"preempted before it was started", &lockguard.PreemptedError{Scope: "db"}, 76, "the command was not started"},
		{"lost before it was started", &lockguard.LostError{Scope: "db"}, 77, "the command was not started"},
		{"a request that can never work", &lockguard.RequestError{Field: "scope", Reason: "is empty"}, 78, "scope: is empty"},
		{"no access", fmt.Errorf("lock not acquired: %w", &lock.AccessError{Node: "/lockkeeper"}), 78, "the ACL of /lockkeeper does not allow it to clients without credentials"},
		{"signal", fmt.Errorf("not acquired: %w", &jobs.SignalError{Signal: syscall.SIGHUP}), 129, `SIGHUP was received while waiting for lock "db": left the queue`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := refused([]lockguard.Requirement{{Scope: "db"}}, c.err)
			require.Equal(t, c.code, exitCode(err))
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRefusalOfSeveralLocksNamesTheOneThatWasMissing(t *testing.T) {
	two := []lockguard.Requirement{{Scope: "db"}, {Scope: "web"}}
	for _, busy := range []error{&lock.NotAcquiredError{Scope: "web"}, &lock.CleanupPendingError{Scope: "web"}} {
		require.ErrorContains(t, refused(two, busy), "see: lockkeeper locks show web")
	}
	signal := refused(two, &jobs.SignalError{Signal: syscall.SIGHUP})
	require.EqualError(t, signal, `SIGHUP was received while waiting for locks "db", "web": left the queue`)
}

func TestScopeInAHintIsOneWordOfAShell(t *testing.T) {
	for scope, want := range map[string]string{
		"cluster/orders":  "cluster/orders",
		"Größe/東京":        "Größe/東京",
		"two words":       "'two words'",
		"$HOME; rm -rf x": "'$HOME; rm -rf x'",
		"it's":            `'it'\''s'`,
		"-o":              "-o",
	} {
		require.Equal(t, want, live.ShellWord(scope))
		err := refused([]lockguard.Requirement{{Scope: scope}}, &lock.NotAcquiredError{Scope: scope})
		require.ErrorContains(t, err, "see: lockkeeper locks show "+want)
	}
}

func TestPersonAtTheTerminalIsToldWhatMatters(t *testing.T) {
	about := lockguard.Subject{Scope: "db"}
	other := lock.Contender{Identity: priority.Identity{Owner: "hotfix", Host: "h1", PID: 12}, Terms: priority.Terms{Priority: 90}}
	for _, c := range []struct {
		event lockguard.Event
		says  string
	}{
		{lockguard.Event{Subject: about, Notice: lockguard.Waiting{}}, ""},
		{lockguard.Event{Subject: about, Notice: lockguard.Acquired{}}, ""},
		{lockguard.Event{Subject: about, Notice: lockguard.Released{}}, ""},
		{
			lockguard.Event{Subject: about, Notice: lock.Queued{Position: 2, Holders: []lock.Contender{other}}},
			`waiting for lock "db", held by "hotfix" (priority 90, host h1, pid 12), place 2 in the queue`,
		},
		{lockguard.Event{Subject: about, Notice: lock.Queued{Position: 1}}, `waiting for lock "db", place 1 in the queue`},
		{lockguard.Event{Subject: about, Notice: lock.Requeued{}}, `the ZooKeeper session ended; waiting for lock "db" again, from the back of the queue`},
		{lockguard.Event{Subject: about, Notice: lock.TakenOver{From: []lock.Contender{other}}}, `took lock "db" from hotfix, whose time to clean up was over`},
		{
			lockguard.Event{Subject: about, Notice: lock.PreemptRequested{By: other, Grace: 90 * time.Second}},
			`"hotfix" (priority 90) asks for lock "db": the command has 1m30s to clean up`,
		},
		{lockguard.Event{Subject: about, Notice: lock.AtRisk{}}, `ZooKeeper is silent: lock "db" will be lost unless it answers soon; the command is stopped`},
		{
			lockguard.Event{Subject: about, Notice: lockguard.Released{Err: errors.New("no answer")}},
			`ZooKeeper has not confirmed that lock "db" is given back; it is free when the session ends at the latest: no answer`,
		},
	} {
		var stderr bytes.Buffer
		(&program{stderr: &stderr}).narrate(t.Context(), c.event)
		want := ""
		if c.says != "" {
			want = "lockkeeper: " + c.says + "\n"
		}
		require.Equal(t, want, stderr.String(), "%T", c.event)
	}
}
