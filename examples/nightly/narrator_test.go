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
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func TestEveryEventBecomesAStepThatPeopleCanRead(t *testing.T) {
	about := lockguard.Subject{At: start, ID: "r1", Owner: "compact", Token: 7}
	hotfix := recipes.Contender{Owner: "hotfix", Terms: priority.Terms{Priority: priority.Level(90)}}
	broken := errors.New("disk\nfull")
	tests := map[string]struct {
		event lockguard.Event
		kind  kind
		text  string
	}{
		"queued":              {lockguard.Queued{Subject: about, Holders: []recipes.Contender{hotfix, {Owner: "backup"}}}, waiting, "for hotfix, backup"},
		"queued for nobody":   {lockguard.Queued{Subject: about}, waiting, "for its turn"},
		"acquired at once":    {lockguard.Acquired{Subject: about, Waited: 3 * time.Millisecond}, holding, "token 7"},
		"acquired":            {lockguard.Acquired{Subject: about, Waited: 1240 * time.Millisecond}, holding, "token 7, after 1.2s"},
		"preempted":           {lockguard.PreemptRequested{Subject: about, By: hotfix, Grace: 2 * time.Second}, preempted, "by hotfix (priority 90), 2s to clean up"},
		"for an operator":     {lockguard.PreemptRequested{Subject: about, By: hotfix, Override: &recipes.Mark{ID: "INC-1", By: "ana"}, Grace: 2 * time.Second}, preempted, "by ana (override INC-1), 2s to clean up"},
		"frozen":              {lockguard.Frozen{Subject: about, Override: override.Override{ID: "INC-1", By: "ana", Until: start.Add(time.Minute)}}, frozen, "until " + start.Add(time.Minute).Local().Format(time.TimeOnly) + " by ana (override INC-1)"},
		"thawed":              {lockguard.Thawed{Subject: about}, thawed, "asks for the lock again"},
		"boosted":             {lockguard.Overridden{Subject: about, Effect: boosted(95)}, overridden, "by ana (override INC-1): priority 95"},
		"emergency":           {lockguard.Overridden{Subject: about, Effect: boosted(priority.Emergency)}, overridden, "by ana (override INC-1): priority emergency"},
		"as declared":         {lockguard.Overridden{Subject: about}, overridden, "as declared again"},
		"cleanup":             {lockguard.CleanupStarted{Subject: about}, cleaning, ""},
		"cleaned up":          {lockguard.CleanupDone{Subject: about, Took: time.Second}, cleaned, "did it, took 1s"},
		"not cleaned up":      {lockguard.CleanupDone{Subject: about, Err: broken}, unclean, "disk full"},
		"released":            {lockguard.Released{Subject: about, Held: time.Second}, done, "did it, held for 1s"},
		"released, preempted": {lockguard.Released{Subject: about, Held: time.Second, Cause: &lockguard.PreemptedError{By: "hotfix"}}, handedOver, "held for 1s"},
		"not confirmed":       {lockguard.Released{Subject: about, Held: time.Second, Err: broken}, done, "did it, release not confirmed"},
		"preempted, the same": {lockguard.Released{Subject: about, Cause: &lockguard.PreemptedError{By: "hotfix"}, Err: broken}, stopped, "release not confirmed"},
		"released, shutdown":  {lockguard.Released{Subject: about, Held: time.Second, Cause: &lockguard.ShutdownError{Err: lockguard.ErrShutdown}}, stopped, "the daemon ends, held for 1s"},
		"taken over":          {lockguard.TakenOver{Subject: about, From: []recipes.Contender{hotfix}}, tookOver, "from hotfix, whose time was over"},
		"lost":                {lockguard.Lost{Subject: about, Err: &lockguard.LostError{Scope: "s", Reason: recipes.LossTaken, By: "hotfix"}}, lost, `lock "s" lost: taken by "hotfix" after the grace had ended`},
		"left, shutdown":      {lockguard.NotAcquired{Subject: about, Err: fmt.Errorf("not acquired: %w", &lockguard.ShutdownError{Err: lockguard.ErrShutdown})}, left, "the queue: the daemon ends"},
		"not acquired":        {lockguard.NotAcquired{Subject: about, Err: broken}, gaveUp, "disk full"},
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

	n.observe(t.Context(), lockguard.Skipped{
		Subject: lockguard.Subject{At: start}, Job: "compact", Instant: start, Reason: string(scheduler.SkipOverlap),
	})

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

	n.observe(t.Context(), lockguard.Released{Subject: lockguard.Subject{Owner: "compact"}})

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
