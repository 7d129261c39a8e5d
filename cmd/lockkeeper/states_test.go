package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// Given a job whose run waits for its lock, and one whose run a freeze keeps out,
// then every command says so in the same words.
func TestCommandsSayWhatRunsWaitFor(t *testing.T) {
	f := newFortress(t, time.Minute) // "next" waits for "batch"
	ledger := f.client.TickLedger("")
	for _, job := range []string{"next", "icy", "busy"} {
		claim, err := ledger.ClaimManual(t.Context(), job, time.Now())
		require.NoError(t, err)
		require.Equal(t, ticks.Claimed, claim.Verdict)
	}
	until := time.Now().Add(10 * time.Minute)
	_, err := f.client.Overrides().Apply(t.Context(), override.Override{
		ID: "INC-7", Kind: override.Freeze, Match: override.Match{Scope: "tenant/*"}, Until: until, By: "ana", Reason: "rebuild",
	})
	require.NoError(t, err)
	shown := make(chan error, 1)
	go func() {
		shown <- f.client.ShowFrozen(t.Context(), lock.FrozenRequest{
			ID: "fff", Scope: "tenant/5/billing", Identity: priority.Identity{Owner: "icy"}, Job: "icy", Until: until, Override: lock.Mark{ID: "INC-7", By: "ana", Reason: "rebuild"},
		})
	}()
	t.Cleanup(func() { require.NoError(t, <-shown) })
	require.Eventually(t, func() bool {
		all, _, err := f.client.Frozen(t.Context())
		return err == nil && len(all) == 1
	}, time.Minute, 10*time.Millisecond)

	// jobs ls
	var listed []views.Job
	require.NoError(t, json.Unmarshal([]byte(f.shows(t, "jobs", "ls", "-o", "json")), &listed))
	states := map[string]string{}
	for _, v := range listed {
		states[v.Name] = v.State
		require.Equal(t, v.State, v.Runs[0].State)
	}
	require.Equal(t, map[string]string{"next": "waiting", "icy": "frozen", "busy": "running"}, states)
	require.Equal(t, "batch", listed[2].Runs[0].Request.For[0].Owner)
	require.Equal(t, "INC-7", listed[1].Runs[0].Request.Override.ID)
	table := f.shows(t, "jobs", "ls")
	require.Regexp(t, `(?m)^next +waiting \d`, table)
	require.Regexp(t, `(?m)^icy +frozen \d`, table)
	require.Regexp(t, `(?m)^busy +running \d`, table)
	require.Regexp(t, `next is waiting \S+ for db/orders, held by batch on `, table)
	frozen := `out of tenant/5/billing by override INC-7 of ana until `
	require.Contains(t, table, frozen)

	// and all others
	require.Regexp(t, `waiting .* for db/orders, held by batch on `, f.shows(t, "jobs", "history", "next"))
	require.Contains(t, f.shows(t, "jobs", "history", "icy"), frozen)
	why := f.shows(t, "locks", "why", "icy")
	require.Contains(t, why, "icy: frozen, out of the queue of 1 lock")
	require.Contains(t, why, "override INC-7")
	require.Regexp(t, `(?m)^job +frozen \d`, why)
	why = f.shows(t, "locks", "why", "tenant/5/billing")
	require.Contains(t, why, "free; no holder, no waiters, 1 frozen")
	require.Contains(t, why, "frozen    icy")
	show := f.shows(t, "locks", "show", "tenant/5/billing")
	require.Contains(t, show, "free, 1 frozen")
	require.Contains(t, show, frozen)
	require.Contains(t, f.shows(t, "locks", "show", "tenant/5/billing", "-o", "json"), `"state": "frozen"`)
	require.Contains(t, f.shows(t, "locks", "show", "db/orders"), "waiting since")
	require.Regexp(t, `(?s)INC-7 keeps out now\n  icy on \S+ frozen out of tenant/5/billing`, f.shows(t, "override", "ls"))
	require.Contains(t, f.shows(t, "override", "ls", "-o", "json"), `"keeps_out": [`)
}

// Given two teams with a job of one name, then jobs ls and doctor name both hosts.
func TestCommandsNameJobsOfTwoDefinitions(t *testing.T) {
	f := newFortress(t, time.Minute)
	tick := time.Now().Truncate(time.Second)
	for _, definition := range []string{"1-aa", "1-bb"} {
		claim, err := f.client.TickLedger("").Claim(t.Context(), "backup", tick, ticks.Ask{Definition: definition})
		require.NoError(t, err)
		require.Equal(t, definition == "1-bb", len(claim.Differing) > 0)
	}
	_, out, errs := f.lockkeeper(t, "jobs", "ls")
	require.Regexp(t, `backup has 2 definitions, and each tick runs one of them: 1-aa of \S+ pid \d+ \(.* ago\), 1-bb of `, out, errs)
	_, out, errs = f.lockkeeper(t, "jobs", "ls", "-o", "json")
	require.Contains(t, out, `"differing_definitions": [`, errs)
	_, out, errs = f.lockkeeper(t, "doctor", "-o", "json")
	require.Contains(t, out, "daemons have different definitions of this job", errs)
}
