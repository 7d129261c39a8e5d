package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
)

// Whatever a configuration says that is accepted can be explained: each job in
// words that steer no terminal, and in JSON that comes back the same.
func FuzzExplain(f *testing.F) {
	for _, name := range []string{"../../config/testdata/lockkeeper.yaml", "../../examples/nightly/nightly.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for _, job := range []string{
		"schedule: '@daily', run: [x]", "schedule: 'H H(1-5) * * 1', run: [x], jitter: 5m, timezone: Europe/Berlin, locks: [{scope: s, priority: 40, cleanup_timeout: 10s, waiting_timeout: 0s, forceful: true}]",
		"schedule: manual, run: {http: {url: 'http://a'}}", "schedule: '@every 1h/15m', run: [\"\\e[31m\"], overlap: queue, misfire: {policy: run_all}, blackout: [{schedule: '0 0 * * *', for: 1h}]",
	} {
		f.Add("version: 1\njobs:\n  a: {" + job + "}\n")
	}
	from := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := config.Parse("f.yaml", []byte(text), config.Options{Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			return
		}
		defer cfg.Close()
		for _, job := range cfg.Jobs {
			ticks, err := ticksOf(job, from, explained)
			require.NoError(t, err)
			view := explainView{
				Job: job.Name, File: "f.yaml", Runs: workWords(job.Work), Next: ticks, ZooKeeper: "offline",
				Policies: policies(job), Warnings: warningsOf(cfg, job.Name), Locks: lockPlans(job, nil),
			}
			view.Schedule, view.Timezone = specOf(job)
			require.Len(t, view.Locks, len(job.Owned()))
			require.NotEmpty(t, view.Policies)
			data, err := json.Marshal(view)
			require.NoError(t, err)
			var again explainView
			require.NoError(t, json.Unmarshal(data, &again))
			rewritten, err := json.Marshal(again)
			require.NoError(t, err)
			require.Equal(t, string(data), string(rewritten))
			var words bytes.Buffer
			writeExplanation(&words, view, from)
			require.NotContains(t, words.String(), "\x1b")
			require.Contains(t, words.String(), "policies")
			require.False(t, strings.ContainsRune(words.String(), 0))
		}
	})
}
