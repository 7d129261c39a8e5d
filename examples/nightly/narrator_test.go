package nightly

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func TestEveryEventBecomesAStepThatPeopleCanRead(t *testing.T) {
	about := lockguard.Subject{At: start, ID: "r1", Identity: priority.Identity{Owner: "compact"}, Token: 7}
	hotfix := lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: priority.Level(90)}}
	broken := errors.New("disk\nfull")
	tests := map[string]struct {
		event lockguard.Event
		kind  kind
		text  string
	}{
		"queued":              {lockguard.Event{Subject: about, Notice: lock.Queued{Holders: []lock.Contender{hotfix, {Identity: priority.Identity{Owner: "backup"}}}}}, waiting, "for hotfix, backup"},
		"queued, no holder":   {lockguard.Event{Subject: about, Notice: lock.Queued{}}, waiting, "for its turn"},
		"acquired at once":    {lockguard.Event{Subject: about, Notice: lockguard.Acquired{Waited: 3 * time.Millisecond}}, holding, "token 7"},
		"acquired":            {lockguard.Event{Subject: about, Notice: lockguard.Acquired{Waited: 1240 * time.Millisecond}}, holding, "token 7, after 1.2s"},
		"preempted":           {lockguard.Event{Subject: about, Notice: lock.PreemptRequested{By: hotfix, Grace: 2 * time.Second}}, preempted, "by hotfix (priority 90), 2s to clean up"},
		"for an operator":     {lockguard.Event{Subject: about, Notice: lock.PreemptRequested{By: hotfix, Override: &lock.Mark{ID: "INC-1", By: "ana"}, Grace: 2 * time.Second}}, preempted, "by ana (override INC-1), 2s to clean up"},
		"frozen":              {lockguard.Event{Subject: about, Notice: lockguard.Frozen{Override: override.Override{ID: "INC-1", By: "ana", Until: start.Add(time.Minute)}}}, frozen, "until " + start.Add(time.Minute).Local().Format(time.TimeOnly) + " by ana (override INC-1)"},
		"thawed":              {lockguard.Event{Subject: about, Notice: lockguard.Thawed{}}, thawed, "asks for the lock again"},
		"boosted":             {lockguard.Event{Subject: about, Notice: lockguard.Overridden{Effect: boosted(95)}}, overridden, "by ana (override INC-1): priority 95"},
		"emergency":           {lockguard.Event{Subject: about, Notice: lockguard.Overridden{Effect: boosted(priority.Emergency)}}, overridden, "by ana (override INC-1): priority emergency"},
		"as declared":         {lockguard.Event{Subject: about, Notice: lockguard.Overridden{}}, overridden, "as declared again"},
		"cleanup":             {lockguard.Event{Subject: about, Notice: lockguard.CleanupStarted{}}, cleaning, ""},
		"cleaned up":          {lockguard.Event{Subject: about, Notice: lockguard.CleanupDone{Took: time.Second}}, cleaned, "did it, took 1s"},
		"not cleaned up":      {lockguard.Event{Subject: about, Notice: lockguard.CleanupDone{Err: broken}}, unclean, "disk full"},
		"released":            {lockguard.Event{Subject: about, Notice: lockguard.Released{Held: time.Second}}, done, "did it, held for 1s"},
		"released, preempted": {lockguard.Event{Subject: about, Notice: lockguard.Released{Held: time.Second, Cause: &lockguard.PreemptedError{By: "hotfix"}}}, handedOver, "held for 1s"},
		"not confirmed":       {lockguard.Event{Subject: about, Notice: lockguard.Released{Held: time.Second, Err: broken}}, done, "did it, release not confirmed"},
		"preempted, the same": {lockguard.Event{Subject: about, Notice: lockguard.Released{Cause: &lockguard.PreemptedError{By: "hotfix"}, Err: broken}}, stopped, "release not confirmed"},
		"released, shutdown":  {lockguard.Event{Subject: about, Notice: lockguard.Released{Held: time.Second, Cause: &lockguard.ShutdownError{Err: lockguard.ErrShutdown}}}, stopped, "the daemon ends, held for 1s"},
		"taken over":          {lockguard.Event{Subject: about, Notice: lock.TakenOver{From: []lock.Contender{hotfix}}}, tookOver, "from hotfix, whose time was over"},
		"lost":                {lockguard.Event{Subject: about, Notice: lockguard.Lost{Err: &lockguard.LostError{Scope: "s", Reason: lock.LossTaken, By: "hotfix"}}}, lost, `lock "s" lost: taken by "hotfix" after the grace had ended`},
		"left, shutdown":      {lockguard.Event{Subject: about, Notice: lockguard.NotAcquired{Err: fmt.Errorf("not acquired: %w", &lockguard.ShutdownError{Err: lockguard.ErrShutdown})}}, left, "the queue: the daemon ends"},
		"not acquired":        {lockguard.Event{Subject: about, Notice: lockguard.NotAcquired{Err: broken}}, gaveUp, "disk full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []step
			n := newNarrator("A", func(s step) { got = append(got, s) })
			n.say("compact", "did it")

			n.observe(t.Context(), test.event)

			require.Equal(t, []step{{At: start, Daemon: "A", Job: "compact", Run: "r1", Kind: test.kind, Text: test.text}}, got)
		})
	}
}

func boosted(level priority.Level) override.Effect {
	return override.Effect{
		Terms:   priority.Terms{Priority: level},
		Applied: []override.Override{{ID: "INC-1", Kind: override.Boost, By: "ana"}},
	}
}

func TestSkippedTickIsTold(t *testing.T) {
	var got step
	n := newNarrator("A", func(s step) { got = s })

	n.observe(t.Context(), lockguard.Event{Subject: lockguard.Subject{At: start}, Notice: lockguard.Skipped{
		Job: "compact", Instant: start, Reason: string(scheduler.SkipOverlap),
	}})

	require.Equal(t, skipped, got.Kind)
	require.Equal(t, "compact", got.Job)
	require.Equal(t, "its tick of "+start.Local().Format(time.TimeOnly), got.Text)
	require.True(t, got.Overlap)
	require.Empty(t, got.Run, "no run has begun")
}

func TestFailureOfTheWorkIsTold(t *testing.T) {
	var got step
	n := newNarrator("A", func(s step) { got = s })
	n.fail("compact", errors.New("disk full"))

	n.observe(t.Context(), lockguard.Event{Subject: lockguard.Subject{Identity: priority.Identity{Owner: "compact"}}, Notice: lockguard.Released{}})

	require.Equal(t, failed, got.Kind)
	require.Equal(t, "disk full", got.Text)
}

func TestConfigurationOfTheExampleHasNoWarnings(t *testing.T) {
	w := &work{set: orders.Open(t.TempDir())}

	cfg, err := config.Parse("nightly.yaml", nightlyYAML, config.Options{Funcs: w.byName()})

	require.NoError(t, err)
	require.Empty(t, cfg.Warnings)
	require.Len(t, cfg.Jobs, 3)
}
