package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A chronicle is what really happened, as every guard has told it.
type chronicle struct {
	mu     sync.Mutex
	events []lockguard.Event
}

func (c *chronicle) note(_ context.Context, event lockguard.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
}

// A process has a client, a guard and an auditor.
type process struct {
	client  *recipes.Client
	guard   *lockguard.Guard
	auditor *audit.Auditor
}

func (h *fixture) process(c *chronicle) process {
	h.Helper()
	client := h.Client()
	auditor, err := audit.New(audit.Config{Trail: logOf(h, client, 0)})
	require.NoError(h, err)
	guard, err := lockguard.New(client, lockguard.WithObserver(c.note), lockguard.WithObserver(auditor.Observe), lockguard.WithAuditor(auditor))
	require.NoError(h, err)
	return process{client, guard, auditor}
}

// work asks for locks again and again, and cleans up in time or does not.
func (p process) work(ctx context.Context, seed uint64, turns int) {
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range turns {
		stubborn := random.IntN(2) == 0
		r := lockguard.Requirement{
			Scope: fmt.Sprint("scope/", random.IntN(2)), Owner: fmt.Sprintf("%d-%d", seed, n), Priority: priority.Level(random.IntN(5)),
			Forceful: random.IntN(4) > 0, CleanupTimeout: time.Duration(random.IntN(30)) * time.Millisecond,
			LeaseTimeout: time.Second, AcquireTimeout: new(time.Duration(random.IntN(300)) * time.Millisecond),
		}
		runs := time.Duration(random.IntN(60)) * time.Millisecond
		hook := func(ctx context.Context) error {
			if !stubborn {
				return nil
			}
			<-ctx.Done() // of the grace, or of the lock
			timer := time.NewTimer(40 * time.Millisecond)
			defer timer.Stop()
			<-timer.C
			return nil
		}
		_ = p.guard.Do(ctx, r, func(ctx context.Context) error {
			timer := time.NewTimer(runs)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			return ctx.Err()
		}, hook)
	}
}

// takeOver lets one process take a lock from another, which does not finish its
// cleanup before.
func takeOver(t *testing.T, from, by process) {
	t.Helper()
	held, taken, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- from.guard.Do(t.Context(), lockguard.Requirement{Scope: "scope/0", Owner: "stuck", CleanupTimeout: time.Millisecond},
			func(ctx context.Context) error { close(held); <-ctx.Done(); return nil },
			func(context.Context) error { <-taken; return nil })
	}()
	harness.Receive(t, held, "nothing came")
	err := by.guard.Do(t.Context(), lockguard.Requirement{Scope: "scope/0", Owner: "urgent", Priority: 9, Forceful: true, AcquireTimeout: new(harness.Patience)},
		func(context.Context) error { return nil })
	close(taken)
	require.NoError(t, err)
	require.Error(t, harness.Receive(t, ended, "nothing came"))
}

// TestTrailAloneExplainsEveryPreemptionAndTakeover lets three processes fight
// for two locks, ends sessions meanwhile, and replays the trail against what the
// guards have told.
func TestTrailAloneExplainsEveryPreemptionAndTakeover(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := &chronicle{}
	var processes []process
	for range 3 {
		processes = append(processes, h.process(c))
	}

	// given
	takeOver(t, processes[0], processes[1])
	var all sync.WaitGroup
	for i, p := range processes {
		for w := range 3 {
			all.Go(func() { p.work(t.Context(), uint64(10*i+w+1), 20) })
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for n, over := 0, false; !over; n++ {
		select {
		case <-done:
			over = true
		case <-time.After(400 * time.Millisecond):
			if id, password := processes[n%3].client.Session(); n < 6 && id != 0 {
				_ = h.Server.Expire(t.Context(), id, password) // it may have ended by itself
			}
		}
	}
	for _, p := range processes {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		require.NoError(t, p.auditor.Close(ctx))
		cancel()
	}

	// when
	trail := logOf(t, h.Client(), 0)
	require.Nil(t, verified(t, trail).Broken)
	records, _, err := trail.Read(t.Context(), recipes.AuditQuery{})
	require.NoError(t, err)

	// then
	replay(t, records, c.events)
}

func replay(t *testing.T, records []recipes.AuditRecord, events []lockguard.Event) {
	t.Helper()
	count := map[recipes.AuditAction]int{}
	announced := map[string]bool{}        // takeovers, by act
	evicted := map[recipes.Token]string{} // by whom somebody was about to be
	has := func(match func(recipes.AuditRecord) bool) bool { return slices.ContainsFunc(records, match) }
	for _, r := range records {
		switch {
		case r.Action == recipes.AuditTakeover && r.Phase == recipes.AuditIntent:
			announced[r.Act] = true
			for _, v := range r.Victims {
				evicted[v.Token] = r.By
			}
		case r.Action == recipes.AuditTakeover && r.Result == recipes.AuditFailed: // also one that could not be announced
		case r.Action == recipes.AuditTakeover:
			require.True(t, announced[r.Act], "nobody has announced the takeover by %s", r.By)
			count[r.Action]++
		case r.Action == recipes.AuditLost:
			// by somebody who has announced it, also if that one has died since
			require.Equal(t, r.By, evicted[r.Victims[0].Token], "nobody has announced that %s loses its lock", r.Victims[0].Owner)
			count[r.Action]++
		default:
			count[r.Action]++
		}
	}
	want := map[recipes.AuditAction]int{}
	for _, event := range events {
		switch e := event.(type) {
		case lockguard.PreemptSent:
			want[recipes.AuditPreempt]++
			require.True(t, has(func(r recipes.AuditRecord) bool {
				return r.Action == recipes.AuditPreempt && r.By == e.Owner && r.Victims[0].Token == e.Holder.Token && r.Reason == string(e.Reason)
			}), "%+v", e)
		case lockguard.PreemptRequested:
			want[recipes.AuditPreempted]++
			require.True(t, has(func(r recipes.AuditRecord) bool {
				return r.Action == recipes.AuditPreempted && r.By == e.By.Owner && r.Victims[0].Token == e.Token
			}), "%+v", e)
		case lockguard.TakenOver:
			want[recipes.AuditTakeover]++
			require.True(t, has(func(r recipes.AuditRecord) bool {
				return r.Action == recipes.AuditTakeover && r.Phase == recipes.AuditOutcome && r.Result == recipes.AuditDone && r.Act == e.ID
			}), "%+v", e)
		case lockguard.Lost:
			if e.Err.Reason == recipes.LossTaken {
				want[recipes.AuditLost]++
			}
		}
	}
	require.Equal(t, want, count)
	require.Positive(t, want[recipes.AuditTakeover], "nothing was taken over")
	t.Logf("%d events, %d records: %v", len(events), len(records), count)
}
