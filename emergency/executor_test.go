package emergency_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const orders = "cluster/orders"

// A world is a server with some daemons, in virtual time.
type world struct {
	t   *testing.T
	zk  *zktest.Server
	mu  sync.Mutex
	all []audited
}

// audited is an entry of the trail, with who wrote it.
type audited struct {
	opstore.AuditEntry
	by string
	at time.Time
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.zk = zktest.RunT(t, zktest.Pipe(), zktest.SessionTimeouts(time.Second, time.Hour))
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the trail:\n%s\nnodes:\n%s", strings.Join(w.trail(), "\n"), w.zk.Dump())
			}
		})
		f(t, w)
	})
}

// trail is what was audited, in order, in short.
func (w *world) trail() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, e := range w.all {
		line := fmt.Sprintf("%s %s %s", e.Action, e.Phase, e.Override)
		if e.Phase == opstore.AuditOutcome {
			line += " " + e.Result
		}
		if how := e.After["outcome"]; how != "" {
			line += ": " + how
		}
		if e.Error != "" {
			line += ": " + e.Error
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) entries(action opstore.AuditAction) []audited {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.all), func(e audited) bool { return e.Action != action })
}

// A daemon carries out overrides.
type daemon struct {
	w      *world
	name   string
	client *lock.Client
	desk   *emergency.Desk
	log    *logbook
	stop   func() // and wait until it has

	deaf error // what its audit trail says
}

// Audit writes into the trail of the world.
func (d *daemon) Audit(_ context.Context, entry opstore.AuditEntry) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.deaf != nil {
		return d.deaf
	}
	d.w.all = append(d.w.all, audited{entry, d.name, time.Now()})
	return nil
}

func (w *world) client(name string, auth ...lock.Digest) *lock.Client {
	w.t.Helper()
	cfg := lock.Config{Dialer: w.zk.Dialer(name), SessionTimeout: session} // a short one costs many heartbeats in an hour
	if len(auth) > 0 {
		cfg.Auth = &auth[0]
	}
	client, err := lock.NewClient(cfg)
	require.NoError(w.t, err)
	require.NoError(w.t, client.Ready(w.t.Context()))
	w.t.Cleanup(func() { require.NoError(w.t, client.Close(context.Background()), "close the client of %s", name) })
	return client
}

func (w *world) daemon(name string) *daemon {
	w.t.Helper()
	d := &daemon{w: w, name: name, client: w.client(name), log: &logbook{}}
	logger := slog.New(slog.NewTextHandler(d.log, nil))
	var err error
	d.desk, err = emergency.NewDesk(emergency.DeskConfig{Now: d.client.Now, Logger: logger})
	require.NoError(w.t, err)
	guard, err := lockguard.New(d.client, lockguard.WithOverrides(d.desk), lockguard.WithAuditor(d), lockguard.WithOwner(name))
	require.NoError(w.t, err)
	executor, err := emergency.NewExecutor(emergency.ExecutorConfig{Auditor: d, Client: d.client, Desk: d.desk, Guard: guard, Logger: logger})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.desk.Run(ctx) })
	running.Go(func() { executor.Run(ctx) })
	d.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	w.t.Cleanup(d.stop)
	return d
}

// file puts the same overrides into the file of all daemons.
func file(all []*daemon, overrides ...override.Override) {
	for _, d := range all {
		d.desk.SetFile(overrides)
	}
}

// holder is who has the lock: the owner of its only holder.
func (w *world) holder(by *lock.Client) lock.Contender {
	w.t.Helper()
	state, err := by.Lock(w.t.Context(), orders)
	require.NoError(w.t, err)
	if len(state.Holders) == 0 {
		return lock.Contender{}
	}
	require.Len(w.t, state.Holders, 1)
	return state.Holders[0]
}

func anOverride(kind override.Kind, last time.Duration) override.Override {
	return override.Override{
		ID: "INC-1", Kind: kind, Match: override.Match{Scope: orders}, Until: time.Now().Add(last), By: "ana", Reason: "disk is full",
	}
}

// job holds the lock until it is preempted, and then cleans up for a while: it
// could have twice as long.
func (w *world) job(ctx context.Context, client *lock.Client, cleanup time.Duration) (done chan error) {
	w.t.Helper()
	guard, err := lockguard.New(client, lockguard.WithOwner("job"))
	require.NoError(w.t, err)
	done, began := make(chan error, 1), make(chan struct{})
	go func() {
		done <- guard.Do(ctx, lockguard.Requirement{Scope: orders, Terms: priority.Terms{LeaseTimeout: 24 * time.Hour, CleanupTimeout: 2 * cleanup}}, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			time.Sleep(cleanup)
			return nil
		})
	}()
	<-began
	return done
}

func TestAHoldIsKeptUntilItsTimeIsOverByOneDaemon(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// given
		all := []*daemon{w.daemon("a"), w.daemon("b"), w.daemon("c")}
		client := w.client("user")
		job := w.job(t.Context(), client, 5*time.Second)

		// when
		o := anOverride(override.Hold, 10*time.Minute)
		file(all, o)
		time.Sleep(4900 * time.Millisecond)
		require.Equal(t, "job", w.holder(client).Owner, "it has its cleanup")
		time.Sleep(200 * time.Millisecond)

		// then
		held := w.holder(client)
		require.Equal(t, priority.Emergency, held.Priority)
		require.Equal(t, "INC-1", held.Override.ID)
		cause := <-job
		overridden := &lockguard.OverriddenError{}
		require.ErrorAs(t, cause, &overridden)
		require.Equal(t, lock.Mark{ID: "INC-1", By: "ana", Reason: "disk is full"}, overridden.Override)

		// and it is one daemon, that keeps it to the end
		time.Sleep(time.Until(o.Until) - 50*time.Millisecond)
		require.Equal(t, held.ID, w.holder(client).ID)
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, w.holder(client).ID)
		time.Sleep(settled)
		require.Equal(t, []string{
			"override.apply outcome INC-1 done",
			"override.act intent INC-1",
			"override.expire outcome INC-1 done",
		}, w.trail())

		// and nothing is left of it
		time.Sleep(3 * time.Minute)
		require.Empty(t, w.left())
	})
}

const (
	session = 30 * time.Second
	settled = 20 * time.Second // how long all processes need to hear of what has happened
)

// left are the nodes that tell of overrides.
func (w *world) left() []string {
	var paths []string
	for _, n := range w.zk.Tree("/lockkeeper/emergency") {
		if strings.Count(n.Path, "/") > 3 && n.Stat.NumChildren == 0 && !strings.Contains(n.Path, "/turns/") || n.Stat.EphemeralOwner != 0 {
			paths = append(paths, n.Path)
		}
	}
	return paths
}

func TestAHoldIsTakenUpByAnotherDaemonWhenTheFirstOneEndsOrDies(t *testing.T) {
	for name, end := range map[string]func(w *world, d *daemon){
		"it drains": func(_ *world, d *daemon) { d.stop() },
		"it dies":   func(w *world, d *daemon) { w.zk.Partition(d.name) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				// given
				all := []*daemon{w.daemon("a"), w.daemon("b"), w.daemon("c")}
				client := w.client("user")
				file(all, anOverride(override.Hold, time.Hour))
				time.Sleep(time.Second)
				first := w.holder(client)
				for range 2 {
					i := slices.IndexFunc(all, func(d *daemon) bool { return len(d.log.lines("a lock is held for an operator")) > 0 })
					require.GreaterOrEqual(t, i, 0)

					// when
					end(w, all[i])
					all = slices.Delete(all, i, i+1)
					time.Sleep(session + 2*time.Second)

					// then
					next := w.holder(client)
					require.NotEmpty(t, next.ID)
					require.NotEqual(t, first.ID, next.ID)
					require.Greater(t, next.Token, first.Token)
					first = next
				}
				w.zk.Heal()
				require.Len(t, w.entries(opstore.AuditOverrideApply), 1)

				// and when it is taken back, it is given back
				file(all)
				time.Sleep(100 * time.Millisecond)
				require.Empty(t, w.holder(client).ID)
			})
		})
	}
}

func TestAHoldGoesOnWhenItIsMadeLonger(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// given
		all := []*daemon{w.daemon("a"), w.daemon("b")}
		client := w.client("user")
		o := anOverride(override.Hold, time.Minute)
		file(all, o)
		time.Sleep(30 * time.Second)
		held := w.holder(client)
		require.NotEmpty(t, held.ID)

		// when
		o.Until = o.Until.Add(15 * time.Minute)
		file(all, o)

		// then
		time.Sleep(10 * time.Minute)
		is := w.holder(client)
		require.Equal(t, held.ID, is.ID)
		require.Positive(t, is.LeaseLeft)
		time.Sleep(time.Until(o.Until) + 100*time.Millisecond)
		require.Empty(t, w.holder(client).ID)
		time.Sleep(settled)
		require.Len(t, w.entries(opstore.AuditOverrideApply), 2)
		require.Len(t, w.entries(opstore.AuditOverrideExpire), 1)
	})
}

func TestHoldersAreAskedToGoOnceInTheWholeCluster(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// given three desks and a holder
		all := []*daemon{w.daemon("a"), w.daemon("b"), w.daemon("c")}
		client := w.client("user")
		job := w.job(t.Context(), client, 3*time.Second)

		// when
		file(all, anOverride(override.PreemptNow, time.Hour))
		cause := <-job

		// then
		require.ErrorAs(t, cause, new(*lockguard.OverriddenError))
		time.Sleep(time.Second)
		require.Equal(t, []string{
			"override.apply outcome INC-1 done",
			"override.act intent INC-1",
		}, w.trail())
		// and the next one is left alone, whatever starts or ends
		ctx, stop := context.WithCancelCause(t.Context())
		next := w.job(ctx, client, time.Second)
		for _, d := range all {
			d.stop()
			time.Sleep(time.Minute)
		}
		again := w.daemon("d")
		file([]*daemon{again}, anOverrideUntil(all[0]))
		time.Sleep(10 * time.Minute)
		require.Empty(t, next)
		require.Len(t, w.entries(opstore.AuditOverrideAct), 1)
		stop(errors.New("enough"))
		require.Error(t, <-next)
	})
}

// anOverrideUntil is the one override that a daemon knows.
func anOverrideUntil(d *daemon) override.Override {
	set, _ := d.desk.InForce()
	return set[0]
}

func TestOnlyTheHolderWithTheTokenIsAskedToGo(t *testing.T) {
	for name, c := range map[string]struct {
		token func(is lock.Token) int64
		goes  bool
	}{
		"it is the one": {func(is lock.Token) int64 { return int64(is) }, true},
		"it is not":     {func(is lock.Token) int64 { return int64(is) - 1 }, false},
		"no holder":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				all := []*daemon{w.daemon("a"), w.daemon("b")}
				client := w.client("user")
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				o := anOverride(override.PreemptNow, time.Minute)
				var job chan error
				if o.Token = 4711; c.token != nil {
					job = w.job(ctx, client, time.Second)
					o.Token = c.token(w.holder(client).Token)
				}
				file(all, o)
				time.Sleep(5 * time.Second)
				outcomes := w.entries(opstore.AuditOverrideAct)
				if c.goes {
					require.Len(t, outcomes, 1)
					require.Equal(t, opstore.AuditIntent, outcomes[0].Phase)
					require.ErrorAs(t, <-job, new(*lockguard.OverriddenError))
					return
				}
				require.Len(t, outcomes, 1)
				require.Equal(t, "nobody to ask", outcomes[0].After["outcome"])
				require.Empty(t, job)
				stop()
				if job != nil {
					<-job
				}
			})
		})
	}
}

func TestNothingIsDoneThatIsNotOnRecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, client := w.daemon("a"), w.client("user")
		d.deaf = errors.New("the trail is full")
		file([]*daemon{d}, anOverride(override.Hold, time.Hour))
		time.Sleep(10 * time.Second)
		require.Empty(t, w.holder(client).ID)
		require.NotEmpty(t, d.log.lines("the trail is full"))

		d.w.mu.Lock()
		d.deaf = nil
		d.w.mu.Unlock()
		time.Sleep(20 * time.Second)
		require.NotEmpty(t, w.holder(client).ID)
	})
}

func TestBeginningAndEndAreOnRecordOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// given
		all := []*daemon{w.daemon("a"), w.daemon("b"), w.daemon("c")}

		// when files change one after the other, as they do
		o := anOverride(override.Freeze, 10*time.Minute)
		for _, d := range all {
			d.desk.SetFile([]override.Override{o})
			time.Sleep(300 * time.Millisecond)
		}
		for _, d := range all {
			d.desk.SetFile(nil)
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(settled)

		// then
		require.Equal(t, []string{"override.apply outcome INC-1 done", "override.clear outcome INC-1 done"}, w.trail())

		// and the same one again is another time
		file(all, o)
		time.Sleep(10*time.Minute + settled)
		require.Equal(t, []string{
			"override.apply outcome INC-1 done", "override.clear outcome INC-1 done",
			"override.apply outcome INC-1 done", "override.expire outcome INC-1 done",
		}, w.trail())
	})
}

func TestAnUnseenEndIsPutOnRecordLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.daemon("a")
		file([]*daemon{d}, anOverride(override.Freeze, time.Hour))
		time.Sleep(time.Second)
		d.stop()
		time.Sleep(2 * time.Hour)
		w.daemon("b")
		w.daemon("c")
		time.Sleep(5 * time.Minute)
		require.Equal(t, []string{"override.apply outcome INC-1 done", "override.expire outcome INC-1 done"}, w.trail())
		require.Empty(t, w.left())
	})
}
