package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// password is that of ana, who may act.
const password = "hunter2 and more"

// A town has locks in ZooKeeper, and a console that shows them.
type town struct {
	*testing.T
	client   *lock.Client
	board    *live.Board
	trail    *opstore.AuditLog
	operator *emergency.Operator
	url      string // of the console
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{T: t, client: connect(t)}
	var err error
	lookout, err := w.client.Lookout(lock.LookoutOptions{})
	require.NoError(t, err)
	w.board, err = live.New(live.Options{Source: lookout, Now: w.client.Now})
	require.NoError(t, err)
	harness.Run(t, "the board", w.board.Run)
	w.trail, err = w.client.AuditLog(0)
	require.NoError(t, err)
	w.operator, err = emergency.NewOperator(w.client, w.trail)
	require.NoError(t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "ana:%s\n", hash), 0o600))
	users, err := console.LoadUsers(file, nil, time.Now)
	require.NoError(t, err)
	w.url = serve(t, console.Options{
		Board: w.board, Facts: w.facts(), Name: "town", Now: w.client.Now, Operator: hand{w.client, w.operator}, Users: users, Version: "test",
	})
	return w
}

// connect returns a client of a root that no other test uses.
func connect(t *testing.T) *lock.Client {
	t.Helper()
	client := harness.NewClient(t, lock.Config{
		Servers: []string{shared.Server(t).Addr()}, Root: testbed.Root(t), SessionTimeout: 30 * time.Second,
		Auth: &lock.Digest{User: "daemon", Password: "secret"},
	})
	require.NoError(t, client.Ready(t.Context()))
	return client
}

// serve shows a console to browsers, and returns where it is.
func serve(t *testing.T, o console.Options) string {
	t.Helper()
	c, err := console.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	return server.URL
}

// A resident has asked for a lock.
type resident struct {
	*harness.Running
	w    *town
	name string
	held chan *lockguard.Hold
	hold *lockguard.Hold // that it has, as holds found
}

// request asks for a lock in the background, by a guard with that owner.
func (w *town) request(owner string, r lockguard.Requirement) *resident {
	w.Helper()
	guard, err := lockguard.New(w.client, lockguard.WithOwner(owner))
	require.NoError(w, err)
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = time.Hour
	}
	one := &resident{w: w, name: owner, held: make(chan *lockguard.Hold, 1)}
	one.Running = harness.Run(w, owner, func(ctx context.Context) error {
		return guard.Do(ctx, r, func(ctx context.Context) error {
			hold, ok := lockguard.FromContext(ctx)
			if !ok {
				return errors.New("work without a hold")
			}
			one.held <- hold
			<-ctx.Done()
			return context.Cause(ctx)
		}, hooks(ctx, r)...)
	})
	return one
}

// newHarbour is a town whose crane is held, as the board knows.
func newHarbour(t *testing.T, r lockguard.Requirement) (w *town, scope string, holder *resident) {
	t.Helper()
	w = newTown(t)
	r.Scope = "town/harbour/crane"
	holder = w.request("crane-driver", r)
	holder.holds()
	w.waits(r.Scope, 0)
	return w, r.Scope, holder
}

// hooks take all the time that they have: a preempted holder is seen cleaning up.
// They end with caller.
func hooks(caller context.Context, r lockguard.Requirement) []lockguard.Hook {
	if r.CleanupTimeout == 0 {
		return nil
	}
	return []lockguard.Hook{func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-caller.Done():
		}
		return nil
	}}
}

// holds waits until the lock is held.
func (one *resident) holds() *lockguard.Hold {
	one.w.Helper()
	select {
	case one.hold = <-one.held:
	case <-one.Done():
		require.NoError(one.w, one.Err(), "%s does not get its lock", one.name)
	case <-time.After(harness.Patience):
		require.Fail(one.w, "no lock", "%s", one.name)
	}
	return one.hold
}

// lock waits until the board knows something about a lock.
func (w *town) lock(scope string, fits func(live.Lock) bool) live.Lock {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), harness.Patience)
	defer cancel()
	for snapshot := range w.board.Changes(ctx) {
		for _, l := range snapshot.Locks {
			if l.Scope == scope && fits(l) {
				return l
			}
		}
	}
	require.Fail(w, "not seen", "lock %s", scope)
	return live.Lock{}
}

// waits waits until so many stand in the queue of a lock.
func (w *town) waits(scope string, n int) live.Lock {
	w.Helper()
	return w.lock(scope, func(l live.Lock) bool { return len(l.Holders) > 0 && len(l.Waiters) == n })
}

// records are those of the trail.
func (w *town) records() []opstore.AuditRecord {
	w.Helper()
	all, _, err := w.trail.Read(w.Context(), opstore.AuditQuery{})
	require.NoError(w, err)
	return all
}

// facts are all that ZooKeeper tells beside locks.
func (w *town) facts() console.Facts {
	ledger := w.client.TickLedger("")
	return console.Facts{
		Approvals: func(ctx context.Context) ([]views.Approval, []lock.Unreadable, error) {
			all, left, err := w.client.Approvals().List(ctx)
			return each(all, views.NewApproval), left, err
		},
		Audit: w.trail.Read,
		Groups: func(ctx context.Context) ([]views.Group, []lock.Unreadable, error) {
			all, left, err := group.All(ctx, w.client.Client)
			return each(all, views.NewGroup), left, err
		},
		Job: func(ctx context.Context, name string) (views.JobDetail, error) {
			state, err := ledger.State(ctx, name)
			if err != nil || state.Begins.IsZero() && len(state.History) == 0 {
				return views.JobDetail{}, errors.Join(err, &console.NotKnownError{What: "there is no job " + name})
			}
			now := w.client.Now()
			return views.JobDetail{Job: views.NewJob(state, nil, now), History: views.NewHistory(state, nil, 50, now).History, Ticks: []views.NextTick{}}, nil
		},
		Jobs: func(ctx context.Context) ([]views.Job, []lock.Unreadable, error) {
			all, left, err := ledger.States(ctx)
			return each(all, func(s ticks.State) views.Job { return views.NewJob(s, nil, w.client.Now()) }), left, err
		},
		Overrides: func(ctx context.Context) ([]views.Override, []lock.Unreadable, error) {
			posted, err := w.client.Overrides().List(ctx)
			return each(posted, func(o opstore.PostedOverride) views.Override {
				return views.Override{
					Record: o.Override.Record(), Source: string(emergency.ZooKeeper), PostedBy: o.PostedBy, PostedAt: o.PostedAt, Left: o.Override.Until.Sub(w.client.Now()).Milliseconds(),
				}
			}), nil, err
		},
	}
}

func each[A, B any](all []A, f func(A) B) []B {
	made := make([]B, 0, len(all))
	for _, a := range all {
		made = append(made, f(a))
	}
	return made
}

// A hand does what people ask for, as the program does.
type hand struct {
	client *lock.Client
	does   *emergency.Operator
}

func (h hand) Apply(ctx context.Context, o override.Override) (console.Done, error) {
	_, acts, err := h.does.Apply(ctx, []override.Override{o})
	return console.Done{Text: o.ID + " is in force.", Act: strings.Join(acts, " ")}, err
}

func (h hand) Break(ctx context.Context, scope string, token lock.Token, by console.By) (console.Done, error) {
	broken, err := h.does.Break(ctx, scope, token, emergency.By(by))
	return console.Done{Text: "The lock of " + broken.Victim.Owner + " is broken.", Act: broken.Act}, err
}

func (h hand) Clear(ctx context.Context, id string, by console.By) (console.Done, error) {
	_, act, err := h.does.Clear(ctx, id, emergency.By(by))
	return console.Done{Text: id + " is cleared.", Act: act}, err
}

func (hand) Concerns(context.Context, override.Override) (int, error) { return 0, nil }

func (h hand) Decide(ctx context.Context, id string, d opstore.Decision) (console.Done, error) {
	_, act, err := h.does.Decide(ctx, id, d)
	return console.Done{Text: id + " is " + d.Word() + ".", Act: act}, err
}

func (h hand) Pause(ctx context.Context, job string, until time.Time, by console.By) (console.Done, error) {
	_, act, err := h.does.Pause(ctx, job, until, emergency.By(by))
	return console.Done{Text: job + " is paused.", Act: act}, err
}

// Preempt returns when the preemption is on record: the rest goes on.
func (h hand) Preempt(ctx context.Context, p console.Preemption) (console.Done, error) {
	state, err := h.client.Lock(ctx, p.Scope)
	if err != nil {
		return console.Done{}, err
	}
	asked, ended := make(chan string, 1), make(chan error, 1)
	e := emergency.Preemption{Scope: p.Scope, By: emergency.By(p.By), Token: p.Token, Force: p.Force, Grace: p.Grace, Asked: func(act string) { asked <- act }}
	go func() {
		_, err := h.does.Preempt(context.WithoutCancel(ctx), e, state, e.NewMark())
		ended <- err
	}()
	select {
	case act := <-asked:
		return console.Done{Text: "The holder is preempted.", Act: act}, nil
	case err := <-ended:
		return console.Done{}, err
	}
}

func (h hand) Resume(ctx context.Context, job string, by console.By) (console.Done, error) {
	_, act, err := h.does.Resume(ctx, job, emergency.By(by))
	return console.Done{Text: job + " runs again.", Act: act}, err
}

func (h hand) Run(ctx context.Context, job string, by console.By) (console.Done, error) {
	_, act, err := h.does.Run(ctx, job, time.Second, emergency.By(by))
	return console.Done{Text: job + " runs.", Act: act}, err
}
