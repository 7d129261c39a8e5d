package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	tick    = 200 * time.Millisecond // of the server
	session = 6 * time.Second
	hour    = time.Hour
)

// A world is a server, the daemons that use it and an operator.
type world struct {
	*virtual.World

	rng     *rand.Rand
	tap     *tap
	daemons []*daemon

	operator *lock.Client
	trail    *opstore.AuditLog

	mu     sync.Mutex
	facts  []fact
	broken []fact // by the operator
}

// A fact is what a daemon was told of one of its requests.
type fact struct {
	at     time.Duration
	daemon *daemon
	event  lockguard.Event
	scope  string
	token  lock.Token // of the holder that it is about
}

func play(t *testing.T, seed uint64) {
	t.Helper()
	virtual.Run(t, func(v *virtual.World) {
		w := &world{World: v, rng: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // to be repeated, not to be unguessable
		w.tap = newTap(w.T, w.Server)
		w.operator = w.client("operator", "ana", hour)
		var err error
		w.trail, err = w.operator.AuditLog(0)
		require.NoError(w, err)
		for i := range 4 {
			w.daemons = append(w.daemons, w.daemon(fmt.Sprintf("daemon-%d", i)))
		}
		w.play()
	}, zktest.TickTime(tick))
}

func (w *world) client(name, user string, session time.Duration) *lock.Client {
	return w.Connect(name, session, func(cfg *lock.Config) {
		cfg.Auth = &lock.Digest{User: user, Password: "secret"}
		cfg.Operators = []string{lock.DigestID("ana", "secret"), lock.DigestID("daemons", "secret")}
	})
}

// A daemon is a process with jobs that obeys overrides and puts on record what
// it does.
type daemon struct {
	w       *world
	name    string
	client  *lock.Client
	guard   *lockguard.Guard
	auditor *audit.Auditor
	desk    *emergency.Desk

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	crashed time.Duration // when it was cut off for ever; 0: it was not
	asked   int           // whether somebody may take a lock by force
}

func (w *world) daemon(name string) *daemon {
	w.Helper()
	d := &daemon{w: w, name: name, client: w.client(name, "daemons", session)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	trail, err := d.client.AuditLog(0)
	require.NoError(w, err)
	d.auditor, err = audit.New(audit.Config{Trail: trail})
	require.NoError(w, err)
	d.desk, err = emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(d.client.Overrides()), Now: d.client.Now, Limits: override.Limits{AllowBypass: true, MaxDuration: hour},
	})
	require.NoError(w, err)
	d.guard, err = lockguard.New(d.client, lockguard.WithOwner(name), lockguard.WithOverrides(d.desk), lockguard.WithAuditor(d.auditor),
		lockguard.WithApprover(d), lockguard.WithObserver(d.observe), lockguard.WithObserver(d.auditor.Observe), lockguard.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(w, err)
	executor, err := emergency.NewExecutor(emergency.ExecutorConfig{Auditor: d.auditor, Client: d.client, Desk: d.desk, Guard: d.guard})
	require.NoError(w, err)
	d.running.Go(func() { d.desk.Run(d.ctx) })
	d.running.Go(func() { executor.Run(d.ctx) })
	require.NoError(w, d.desk.Ready(w.Context()))
	w.Cleanup(func() { // also after a failure
		w.Heal(name)
		d.end()
	})
	return d
}

// observe gets each event before the auditor does.
func (d *daemon) observe(_ context.Context, event lockguard.Event) {
	d.w.History.Add(d.name, "%T %+v", event.Notice, event)
	about := event.Subject
	known := []fact{{scope: about.Scope, token: about.Token}}
	switch e := event.Notice.(type) {
	case lock.PreemptRequested, lockguard.Lost, lockguard.Acquired, lockguard.Bypassed:
	case lock.PreemptSent:
		known[0].token = e.Holder.Token
	case lock.TakenOver:
		known = nil
		for _, holder := range e.From {
			known = append(known, fact{scope: about.Scope, token: holder.Token})
		}
	default:
		return
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	for _, f := range known {
		f.at, f.daemon, f.event = d.w.Now(), d, event
		d.w.facts = append(d.w.facts, f)
	}
}

// crash cuts a daemon off for ever: for all others that is its end.
func (d *daemon) crash() {
	d.mu.Lock()
	if d.crashed == 0 {
		d.crashed = d.w.Now()
	}
	d.mu.Unlock()
	d.w.History.Add(d.name, "crashes")
	d.w.Partition(d.name)
	d.stop()
}

// counts reports whether a daemon has had the time to put on record what it was
// told at a moment.
func (d *daemon) counts(at time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	const written = 2 * time.Second
	return d.crashed == 0 || at < d.crashed-written
}

// end lets a daemon finish what it does.
func (d *daemon) end() {
	d.stop()
	d.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := d.auditor.Close(ctx)
	if d.counts(d.w.Now() + hour) {
		require.NoError(d.w, err)
	}
}

// Approve says yes to every other one who asks, after a while.
func (d *daemon) Approve(ctx context.Context, _ lockguard.Pending) (lockguard.Decision, error) {
	d.mu.Lock()
	d.asked++
	n := d.asked
	d.mu.Unlock()
	select {
	case <-time.After(time.Duration(n%4) * 400 * time.Millisecond):
	case <-ctx.Done():
		return lockguard.Decision{}, context.Cause(ctx)
	}
	if n%2 == 0 {
		return lockguard.Decision{ID: "rule"}, errors.New("denied by a rule")
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.approved++
	return lockguard.Decision{ID: "rule"}, nil
}

// do runs work that lasts, under its locks. It cleans up for as long as it likes.
func (d *daemon) do(all []lockguard.Requirement, lasts, cleans time.Duration) {
	d.running.Go(func() {
		wait := func(ctx context.Context, long time.Duration) error {
			select {
			case <-time.After(long):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		var hooks []lockguard.Hook
		if all[0].CleanupTimeout > 0 {
			hooks = append(hooks, func(ctx context.Context) error { return wait(context.WithoutCancel(ctx), cleans) })
		}
		err := d.guard.DoAll(d.ctx, all, func(ctx context.Context) error { return wait(ctx, lasts) }, hooks...)
		d.w.History.Add(d.name, "%s: %v", all[0].Owner, err)
		if err != nil && d.ctx.Err() == nil && !isExpected(err) {
			d.w.Errorf("%s: %v", all[0].Owner, err)
		}
	})
}

// isExpected reports whether it is a lock that was not acquired, preempted or lost.
func isExpected(err error) bool {
	for _, target := range []any{
		new(*lock.NotAcquiredError), new(*lock.CleanupPendingError),
		new(*lockguard.PreemptedError), new(*lockguard.LeaseExpiredError), new(*lockguard.OverriddenError), new(*lockguard.LostError),
	} {
		if errors.As(err, target) {
			return true
		}
	}
	return false
}

// --- the operator, who does what the program's commands do ------------------

func (w *world) apply(o override.Override) {
	if _, err := w.trail.Append(w.Context(), posting(o, opstore.AuditOverrideApply, opstore.AuditIntent)); err != nil {
		require.NoError(w, err)
	}
	_, err := w.operator.Overrides().Apply(w.Context(), o)
	require.NoError(w, err)
	w.History.Add("operator", "applies %s", o)
	_, err = w.trail.Append(w.Context(), posting(o, opstore.AuditOverrideApply, opstore.AuditOutcome))
	require.NoError(w, err)
}

func (w *world) clear(id string) {
	o, err := w.operator.Overrides().Clear(w.Context(), id)
	if missing := (*opstore.NoOverrideError)(nil); errors.As(err, &missing) {
		return
	}
	require.NoError(w, err)
	w.History.Add("operator", "clears %s", id)
	_, err = w.trail.Append(w.Context(), posting(o, opstore.AuditOverrideClear, opstore.AuditOutcome))
	require.NoError(w, err)
}

func posting(o override.Override, action opstore.AuditAction, phase opstore.AuditPhase) opstore.AuditEntry {
	e := opstore.AuditEntry{Act: string(action) + " " + o.ID, Action: action, Phase: phase, By: o.By, Reason: o.Reason, Override: o.ID, Scope: o.Match.Scope}
	if phase == opstore.AuditOutcome {
		e.Result = opstore.AuditDone
	}
	return e
}

// breakOne breaks the lock of a holder; stale: with the token of an earlier one.
func (w *world) breakOne(scope string, stale bool) {
	state, err := w.operator.Lock(w.Context(), scope)
	require.NoError(w, err)
	if !state.Held() {
		return
	}
	token := state.Holders[w.rng.IntN(len(state.Holders))].Token
	if stale {
		token--
	}
	entry := opstore.AuditEntry{
		Act: fmt.Sprintf("break %s %s %s", scope, token, w.Now()), Action: opstore.AuditBreak, Phase: opstore.AuditIntent,
		Scope: scope, By: "ana", Reason: "it hangs",
	}
	victim, err := w.operator.Break(w.Context(), lock.BreakRequest{
		Scope: scope, Token: token, By: "ana", Reason: "it hangs",
		Authorize: func(ctx context.Context, holders []lock.Contender) error {
			entry.Victims = nil
			for _, h := range holders {
				entry.Victims = append(entry.Victims, h.Party())
			}
			_, err := w.trail.Append(ctx, entry)
			return err
		},
	})
	w.History.Add("operator", "breaks %s with token %s: %v", scope, token, err)
	if entry.Victims == nil {
		return // no holder was about to be broken
	}
	entry.Phase, entry.Result = opstore.AuditOutcome, opstore.AuditDone
	if err != nil {
		entry.Result, entry.Error = opstore.AuditFailed, err.Error()
	} else {
		require.False(w, stale, "a stale token has broken a lock")
		w.mu.Lock()
		w.broken = append(w.broken, fact{at: w.Now(), scope: scope, token: victim.Token})
		w.mu.Unlock()
	}
	_, err = w.trail.Append(w.Context(), entry)
	require.NoError(w, err)
}
