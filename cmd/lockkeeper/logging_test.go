package main

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// logged returns the line that log writes in a format, without its time.
func logged(t *testing.T, format string, log func(*slog.Logger)) string {
	t.Helper()
	var out, exported bytes.Buffer
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	flags := loggingFlags{export: unitKeys{slog.NewTextHandler(&exported, &slog.HandlerOptions{ReplaceAttr: noTime})}}
	log(flags.logger(&out, slog.LevelInfo, format))
	text := out.String() + exported.String()
	require.NotEmpty(t, text)
	return text
}

func TestDurationsForProgramsAreMillisecondsAndTheirKeysSaySo(t *testing.T) {
	log := func(l *slog.Logger) {
		l.With("wait", 2*time.Second).WithGroup("of").Info("job ended", "took", 108*time.Millisecond, slog.Group("in", "step", time.Minute), "token", int64(7))
	}

	text := logged(t, "json", log)
	require.Contains(t, text, `"wait_ms":2000,"of":{"took_ms":108,"in":{"step_ms":60000},"token":7}}`)
	require.Contains(t, text, "wait_ms=2000 of.took_ms=108 of.in.step_ms=60000 of.token=7\n", "what is exported")

	require.Contains(t, logged(t, "text", log), " wait=2s of.took=108ms of.in.step=1m0s of.token=7\n", "people read units")
}

func TestEventsOfLocksHaveTheSameTypesInEachLine(t *testing.T) {
	about := lockguard.Subject{Scope: "db", ID: "r1", Token: 7}
	for _, event := range []lockguard.Event{
		{Subject: about, Notice: lockguard.Acquired{Waited: time.Second}},
		{Subject: about, Notice: lockguard.Released{Held: time.Second}},
		{Subject: about, Notice: lockguard.CleanupDone{Took: time.Second}},
	} {
		text := logged(t, "json", func(l *slog.Logger) { lockguard.LogObserver(l)(context.Background(), event) })
		require.Regexp(t, `"token":7,"(waited|held|took)_ms":1000[,}]`, text)
	}
}
