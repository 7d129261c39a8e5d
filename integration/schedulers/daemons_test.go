package schedulers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// afterWindow is how long a tick of the window's end may still take: longer than
// scheduler.Config.Lateness.
const afterWindow = 8 * time.Second

// A ranTick is a tick that a daemon has run.
type ranTick struct {
	Job  string
	At   int64 // Unix time
	Late time.Duration
}

// runDaemons runs several daemons that share the jobs, each in a process of its
// own, and checks that no tick has run twice. A tick of the window that has not
// run counts as skipped.
func runDaemons(t testing.TB, s settings, server server) (all result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.WarmUp+s.Window+2*time.Minute)
	defer cancel()
	client, err := lock.NewClient(lock.Config{Servers: []string{s.Server}})
	require.NoError(t, err)
	require.NoError(t, client.Ready(ctx))
	require.NoError(t, fillHistories(ctx, client, s))
	require.NoError(t, client.Close(ctx))

	s.Begin = time.Now().Add(s.WarmUp).Truncate(time.Second)
	each := make([]result, s.Daemons)
	var daemons errgroup.Group
	for i := range each {
		child := command(t, ctx, s)
		daemons.Go(func() error {
			out, err := child.Output()
			if err != nil {
				return err
			}
			return json.Unmarshal(out, &each[i])
		})
	}
	require.NoError(t, wait(ctx, time.Until(s.Begin)))
	writes := server.proposals(t)
	require.NoError(t, wait(ctx, time.Until(s.Begin.Add(s.Window))))
	all.Writes = server.proposals(t) - writes
	require.NoError(t, daemons.Wait())

	all.Jobs, all.Window, all.Server = s.Jobs, s.Window, each[0].Server
	var runs []ranTick
	for _, r := range each {
		all.CPU += r.CPU
		all.Heap += r.Heap
		all.RSS += r.RSS
		all.Mallocs += r.Mallocs
		all.Bytes += r.Bytes
		runs = append(runs, r.Runs...)
		require.NotEmpty(t, r.Runs, "a daemon has no share of the jobs")
	}
	late := onceEach(t, s, runs)
	all.Ticks = len(late)
	all.Skipped = int(s.Window/s.Period)*s.Jobs - len(late)
	slices.Sort(late)
	if len(late) > 0 {
		all.Late = [3]time.Duration{late[len(late)/2], late[len(late)*99/100], late[len(late)-1]}
	}
	return all
}

// onceEach checks that no tick has run twice, and returns how late those of the
// window were.
func onceEach(t testing.TB, s settings, runs []ranTick) (late []time.Duration) {
	t.Helper()
	type tick struct {
		job string
		at  int64
	}
	ran := make(map[tick]bool, len(runs))
	for _, r := range runs {
		this := tick{r.Job, r.At}
		require.False(t, ran[this], "%s has run its tick at %s twice", r.Job, time.Unix(r.At, 0).UTC())
		ran[this] = true
		if at := time.Unix(r.At, 0); !at.Before(s.Begin) && at.Before(s.Begin.Add(s.Window)) {
			late = append(late, r.Late)
		}
	}
	return late
}

// beDaemon is one of several daemons.
func beDaemon(s settings) error {
	ctx, cancel := context.WithDeadline(context.Background(), s.Begin.Add(s.Window+time.Minute))
	defer cancel()
	client, err := lock.NewClient(lock.Config{Servers: []string{s.Server}})
	if err != nil {
		return err
	}
	if err := client.Ready(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	var runs []ranTick
	heap, rss := memory()
	finish, err := startLockkeeper(ctx, client, s, func(run jobs.Run) {
		late := time.Since(run.Due)
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, ranTick{run.Job, run.Scheduled.Unix(), late})
	})
	if err != nil {
		return err
	}
	if err := wait(ctx, time.Until(s.Begin)); err != nil {
		return err
	}
	before := look(s)
	if err := wait(ctx, time.Until(s.Begin.Add(s.Window))); err != nil {
		return err
	}
	after := look(s)
	r := result{
		CPU: after.cpu - before.cpu, Server: after.server - before.server,
		Mallocs: after.mallocs - before.mallocs, Bytes: after.bytes - before.bytes,
	}
	if err := wait(ctx, afterWindow); err != nil {
		return err
	}
	r.Heap, r.RSS = memory()
	r.Heap, r.RSS = r.Heap-heap, r.RSS-rss
	if _, err := finish(); err != nil {
		return fmt.Errorf("end of a daemon: %w", err)
	}
	r.Runs = runs
	return json.NewEncoder(os.Stdout).Encode(r)
}
