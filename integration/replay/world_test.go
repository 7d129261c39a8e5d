package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	tick    = 200 * time.Millisecond // of the server
	session = 6 * time.Second
	hour    = time.Hour
)

// A world is a server, the daemons that use it and an operator, in a bubble of
// its own.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	zk      *zktest.Server
	start   time.Time
	tap     *tap
	daemons []*daemon

	operator *recipes.Client
	trail    *recipes.AuditLog

	mu     sync.Mutex
	facts  []fact
	broken []fact // by the operator
	lines  []line // in case of failure
}

// A fact is what a daemon was told of one of its requests.
type fact struct {
	at     time.Duration
	daemon *daemon
	event  lockguard.Event
	scope  string
	token  recipes.Token // of the holder that it is about
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), start: time.Now()} //nolint:gosec // to be repeated, not to be unguessable
	t.Cleanup(func() {
		if t.Failed() {
			w.mu.Lock()
			defer w.mu.Unlock()
			var text strings.Builder
			for _, l := range w.lines {
				fmt.Fprintf(&text, "%12s %-9s %s\n", l.at, l.who, fmt.Sprintf(l.format, l.args...))
			}
			t.Logf("seed %d; what happened:\n%s", seed, &text)
		}
	})
	w.zk = zktest.RunT(t, zktest.Pipe(), zktest.TickTime(tick), zktest.SessionTimeouts(time.Second, hour))
	w.tap = newTap(t, w.zk)
	w.operator = w.client("operator", "ana", hour)
	var err error
	w.trail, err = w.operator.AuditLog(0)
	require.NoError(t, err)
	for i := range 4 {
		w.daemons = append(w.daemons, w.daemon(fmt.Sprintf("daemon-%d", i)))
	}
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// A line says what happened, when it is wanted.
type line struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

func (w *world) tell(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line{w.now(), who, format, args})
}

func (w *world) client(name, user string, session time.Duration) *recipes.Client {
	w.t.Helper()
	client, err := recipes.NewClient(recipes.Config{
		Dialer: w.zk.Dialer(name), SessionTimeout: session,
		Auth: &recipes.Digest{User: user, Password: "secret"}, Operators: []string{recipes.DigestID("ana", "secret"), recipes.DigestID("daemons", "secret")},
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		w.zk.Heal(name)
		ctx, cancel := context.WithTimeout(context.Background(), hour)
		defer cancel()
		require.NoError(w.t, client.Close(ctx), "close the client of %s", name)
	})
	return client
}

// A daemon is a process with jobs that obeys overrides and puts on record what
// it does.
type daemon struct {
	w       *world
	name    string
	client  *recipes.Client
	guard   *lockguard.Guard
	auditor *audit.Auditor
	desk    *emergency.Desk

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	crashed time.Duration // when it was cut off for ever; 0: it was not
}

func (w *world) daemon(name string) *daemon {
	w.t.Helper()
	d := &daemon{w: w, name: name, client: w.client(name, "daemons", session)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	trail, err := d.client.AuditLog(0)
	require.NoError(w.t, err)
	d.auditor, err = audit.New(audit.Config{Trail: trail})
	require.NoError(w.t, err)
	d.desk, err = emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(d.client.Overrides()), Now: d.client.Now, Limits: override.Limits{MaxDuration: hour},
	})
	require.NoError(w.t, err)
	d.guard, err = lockguard.New(d.client, lockguard.WithOwner(name), lockguard.WithOverrides(d.desk), lockguard.WithAuditor(d.auditor),
		lockguard.WithObserver(d.observe), lockguard.WithObserver(d.auditor.Observe), lockguard.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(w.t, err)
	executor, err := emergency.NewExecutor(emergency.ExecutorConfig{Auditor: d.auditor, Client: d.client, Desk: d.desk, Guard: d.guard})
	require.NoError(w.t, err)
	d.running.Go(func() { d.desk.Run(d.ctx) })
	d.running.Go(func() { executor.Run(d.ctx) })
	require.NoError(w.t, d.desk.Ready(w.t.Context()))
	w.t.Cleanup(func() { // also after a failure
		w.zk.Heal(name)
		d.end()
	})
	return d
}

// observe is told before the auditor is.
func (d *daemon) observe(_ context.Context, event lockguard.Event) {
	d.w.tell(d.name, "%T %+v", event, event)
	about := event.About()
	known := []fact{{scope: about.Scope, token: about.Token}}
	switch e := event.(type) {
	case lockguard.PreemptRequested, lockguard.Lost, lockguard.Acquired:
	case lockguard.PreemptSent:
		known[0].token = e.Holder.Token
	case lockguard.TakenOver:
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
		f.at, f.daemon, f.event = d.w.now(), d, event
		d.w.facts = append(d.w.facts, f)
	}
}

// crash cuts a daemon off for ever: for everybody else that is its end.
func (d *daemon) crash() {
	d.mu.Lock()
	if d.crashed == 0 {
		d.crashed = d.w.now()
	}
	d.mu.Unlock()
	d.w.tell(d.name, "crashes")
	d.w.zk.Partition(d.name)
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
	if d.counts(d.w.now() + hour) {
		require.NoError(d.w.t, err)
	}
}

// do runs work that lasts, under a lock. It cleans up for as long as it likes.
func (d *daemon) do(r lockguard.Requirement, lasts, cleans time.Duration) {
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
		if r.CleanupTimeout > 0 {
			hooks = append(hooks, func(ctx context.Context) error { return wait(context.WithoutCancel(ctx), cleans) })
		}
		err := d.guard.Do(d.ctx, r, func(ctx context.Context) error { return wait(ctx, lasts) }, hooks...)
		d.w.tell(d.name, "%s: %v", r.Owner, err)
	})
}

// --- the operator, who does what the program's commands do ------------------

func (w *world) apply(o override.Override) {
	if _, err := w.trail.Append(w.t.Context(), posting(o, recipes.AuditOverrideApply, recipes.AuditIntent)); err != nil {
		require.NoError(w.t, err)
	}
	_, err := w.operator.Overrides().Apply(w.t.Context(), o)
	require.NoError(w.t, err)
	w.tell("operator", "applies %s", o)
	_, err = w.trail.Append(w.t.Context(), posting(o, recipes.AuditOverrideApply, recipes.AuditOutcome))
	require.NoError(w.t, err)
}

func (w *world) clear(id string) {
	o, err := w.operator.Overrides().Clear(w.t.Context(), id)
	if missing := (*recipes.NoOverrideError)(nil); errors.As(err, &missing) {
		return
	}
	require.NoError(w.t, err)
	w.tell("operator", "clears %s", id)
	_, err = w.trail.Append(w.t.Context(), posting(o, recipes.AuditOverrideClear, recipes.AuditOutcome))
	require.NoError(w.t, err)
}

func posting(o override.Override, action recipes.AuditAction, phase recipes.AuditPhase) recipes.AuditEntry {
	e := recipes.AuditEntry{Act: string(action) + " " + o.ID, Action: action, Phase: phase, By: o.By, Reason: o.Reason, Override: o.ID, Scope: o.Match.Scope}
	if phase == recipes.AuditOutcome {
		e.Result = recipes.AuditDone
	}
	return e
}

// breakOne breaks the lock of a holder; stale: with the token of an earlier one.
func (w *world) breakOne(scope string, stale bool) {
	state, err := w.operator.Lock(w.t.Context(), scope)
	require.NoError(w.t, err)
	if !state.Held() {
		return
	}
	token := state.Holders[w.rng.IntN(len(state.Holders))].Token
	if stale {
		token--
	}
	entry := recipes.AuditEntry{
		Act: fmt.Sprintf("break %s %s %s", scope, token, w.now()), Action: recipes.AuditBreak, Phase: recipes.AuditIntent,
		Scope: scope, By: "ana", Reason: "it hangs",
	}
	victim, err := w.operator.Break(w.t.Context(), recipes.BreakRequest{
		Scope: scope, Token: token, By: "ana", Reason: "it hangs",
		Authorize: func(ctx context.Context, holders []recipes.Contender) error {
			entry.Victims = nil
			for _, h := range holders {
				entry.Victims = append(entry.Victims, h.Party())
			}
			_, err := w.trail.Append(ctx, entry)
			return err
		},
	})
	w.tell("operator", "breaks %s with token %s: %v", scope, token, err)
	if entry.Victims == nil {
		return // nobody was about to be broken
	}
	entry.Phase, entry.Result = recipes.AuditOutcome, recipes.AuditDone
	if err != nil {
		entry.Result, entry.Error = recipes.AuditFailed, err.Error()
	} else {
		require.False(w.t, stale, "a stale token has broken a lock")
		w.mu.Lock()
		w.broken = append(w.broken, fact{at: w.now(), scope: scope, token: victim.Token})
		w.mu.Unlock()
	}
	_, err = w.trail.Append(w.t.Context(), entry)
	require.NoError(w.t, err)
}
