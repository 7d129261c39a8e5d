package overrides

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Programs that work under one lock or several, with preemption, takeovers and
// approvals, while overrides come and go: no program hangs, at most one has a
// lock, every takeover is on record with its victims, and at the end all is as
// if nothing had been in force.
func TestProgramsWorkOnWhileOverridesComeAndGo(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			story(t, func(w *world) { comeAndGo(w, seed) })
		})
	}
}

// dice are the same again for the same seed, as far as the order of those that
// throw them is.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) pick(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// rule decides after a while.
type rule struct{ dice *dice }

var errDenied = errors.New("denied by a rule")

func (r rule) Approve(ctx context.Context, _ lockguard.Pending) (lockguard.Decision, error) {
	select {
	case <-time.After(time.Duration(r.dice.pick(3000)) * time.Millisecond):
	case <-ctx.Done():
		return lockguard.Decision{}, ctx.Err()
	}
	if r.dice.pick(2) == 0 {
		return lockguard.Decision{ID: "rule"}, errDenied
	}
	return lockguard.Decision{ID: "rule"}, nil
}

func comeAndGo(w *world, seed uint64) {
	t := w.T
	d := &dice{r: rand.New(rand.NewPCG(seed, 6))} //nolint:gosec // the same ones again for the same seed
	scopes := []string{"a", "b", "c"}
	var programs []*program
	for i := range 4 {
		programs = append(programs, w.program(fmt.Sprint("job-", i), lockguard.WithApprover(rule{d})))
	}
	top := tops{highest: make(map[string]lockguard.Token)}
	ctx, stop := context.WithTimeout(w.Context(), 5*time.Minute)
	defer stop()
	var all sync.WaitGroup
	for _, p := range programs {
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					err := p.Guard.DoAll(ctx, d.requirements(scopes), func(ctx context.Context) error {
						hold, _ := lockguard.FromContext(ctx)
						if ctx.Err() == nil && hold.Check() == nil {
							top.begin(t, hold)
						}
						select {
						case <-ctx.Done():
						case <-time.After(time.Duration(d.pick(2000)) * time.Millisecond):
						}
						return nil
					}, lasting(time.Duration(d.pick(1500))*time.Millisecond))
					require.True(t, err == nil || ctx.Err() != nil || isExpected(err), "%v", err)
					<-time.After(time.Millisecond)
				}
			})
		}
	}
	for range 40 {
		w.Pass(time.Duration(d.pick(4000)) * time.Millisecond)
		if d.pick(6) == 0 {
			all.Go(func() { holdForAWhile(ctx, t, programs[0], d, scopes) })
		}
		w.board.put(d.overrides(scopes)...)
	}
	w.board.put()
	stop()
	all.Wait()

	for _, scope := range scopes {
		state, err := programs[0].Client.Lock(w.Context(), scope)
		require.NoError(t, err)
		require.Empty(t, state.Holders, scope)
		require.Empty(t, state.Waiters, scope)
	}
	requireOnRecord(t, programs)
}

// tops are the highest tokens seen.
type tops struct {
	mu      sync.Mutex
	highest map[string]lockguard.Token
}

// begin checks that the work is the newest under each of its locks.
func (x *tops) begin(t *testing.T, hold *lockguard.Hold) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for scope, token := range hold.Tokens() {
		if token == 0 {
			continue // bypassed
		}
		require.Greater(t, token, x.highest[scope], scope)
		x.highest[scope] = token
	}
}

func (d *dice) requirements(scopes []string) []lockguard.Requirement {
	var all []lockguard.Requirement
	some := d.pick(7) + 1
	for i, scope := range scopes {
		if some&(1<<i) == 0 {
			continue
		}
		r := lockguard.Requirement{
			Scope: scope, Terms: priority.Terms{
				Priority: priority.Level(d.pick(5)), Forceful: d.pick(3) == 0,
				CleanupTimeout: time.Second, LeaseTimeout: 3 * time.Second,
			},
		}
		if d.pick(2) == 0 {
			r.WaitingTimeout = new(time.Duration(d.pick(1500)) * time.Millisecond)
		}
		if d.pick(3) == 0 {
			r.AcquireTimeout = new(time.Duration(d.pick(5000)) * time.Millisecond)
		}
		all = append(all, r)
	}
	return all
}

func (d *dice) overrides(scopes []string) []override.Override {
	kinds := []override.Kind{override.Boost, override.Boost, override.Cap, override.Freeze, override.Extend, override.Bypass}
	var all []override.Override
	for i := range d.pick(4) {
		o := incident(kinds[d.pick(len(kinds))])
		o.ID = fmt.Sprint("INC-", i)
		if d.pick(3) > 0 {
			o.Match.Scope = scopes[d.pick(3)]
		}
		switch o.Kind {
		case override.Boost:
			o.Priority, o.Forceful = new(priority.Level(d.pick(9))), new(true)
		case override.Cap:
			o.Priority, o.Forceful = new(priority.Level(d.pick(3))), new(false)
		case override.Freeze:
			o.Match.PriorityBelow = new(priority.Level(1 + d.pick(6)))
		case override.Extend:
			o.LeaseTimeout, o.AcquireTimeout = new(10*time.Second), new(5*time.Second)
		case override.Bypass:
			o.Match.Job = fmt.Sprint("job-", d.pick(4))
		case override.Hold, override.PreemptNow, override.Pause:
		}
		all = append(all, o)
	}
	return all
}

// holdForAWhile has an operator take a lock.
func holdForAWhile(ctx context.Context, t *testing.T, p *program, d *dice, scopes []string) {
	o := incident(override.Hold, func(o *override.Override) {
		o.ID, o.Match.Scope, o.WaitingTimeout = "INC-9", scopes[d.pick(3)], new(500*time.Millisecond)
	})
	p.board.post(o)
	err := p.Guard.Override(ctx, o, func(context.Context) error {
		<-time.After(time.Second)
		return nil
	})
	require.True(t, err == nil || ctx.Err() != nil || isExpected(err), "%v", err)
}

// isExpected reports whether it is a lock that was not acquired, or preempted.
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

// requireOnRecord checks that whatever was taken from somebody was announced,
// with the tokens of those that it was taken from.
func requireOnRecord(t *testing.T, programs []*program) {
	t.Helper()
	type taken struct {
		scope string
		token lock.Token
	}
	announced := make(map[taken]string) // the act
	records, _, err := programs[0].trail.log.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	for _, r := range records {
		if r.Action != opstore.AuditTakeover {
			continue
		}
		for _, v := range r.Victims {
			announced[taken{r.Scope, v.Token}] = r.Act
		}
	}
	takeovers := 0
	for _, p := range programs {
		for _, e := range virtual.Events[lock.TakenOver](p.Program) {
			takeovers++
			for _, c := range e.Notice.(lock.TakenOver).From {
				require.Equal(t, e.ID, announced[taken{e.Scope, c.Token}], "%+v", c)
			}
		}
	}
	require.NotZero(t, takeovers)
}
