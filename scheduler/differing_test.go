package scheduler

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func TestOtherDefinitionIsToldOnceAndSoIsItsEnd(t *testing.T) {
	var log bytes.Buffer
	s := &Scheduler{log: slog.New(slog.NewTextHandler(&log, nil))}
	l := newLane(s, &definition{Job: jobs.Job{Name: "backup"}})
	other := ticks.Definition{Fingerprint: "1-bb", Host: "h2", PID: 2}
	differs := ticks.Claim{Compared: true, Differing: []ticks.Definition{other}, By: ticks.Definition{Fingerprint: "1-aa", Host: "h1", PID: 1}}

	for range 3 {
		l.compare(differs)
		l.compare(ticks.Claim{}) // from memory: that says nothing
	}
	require.Equal(t, 1, l.stats.Differing)
	require.Equal(t, 1, strings.Count(log.String(), "two definitions of one job"), log.String())
	for _, part := range []string{"level=WARN", "job=backup", "host=h1", "other_host=h2", "definition=1-aa", "other_definition=1-bb"} {
		require.Contains(t, log.String(), part)
	}

	log.Reset()
	l.compare(ticks.Claim{Compared: true})
	l.compare(ticks.Claim{Compared: true})
	require.Zero(t, l.stats.Differing)
	require.Equal(t, 1, strings.Count(log.String(), "level=INFO"))
}
