package ensembles

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A site is two ensembles: the scopes below far are on the second one.
type site struct {
	home, far testbed.Server
	dies      testbed.Server // one of them, or none: sessions are lost soon after it has died
}

func newSite(t *testing.T) site {
	t.Helper()
	return site{home: testbed.Start(t, testbed.Settings{}), far: testbed.Start(t, testbed.Settings{})}
}

// A program is a process that locks on both.
type program struct {
	*lockguard.Guard
	router *lock.Router

	mu     sync.Mutex
	events []lockguard.Event
}

func (s site) program(t *testing.T) *program {
	t.Helper()
	home := s.client(t, s.home)
	router, err := lock.NewRouter(home, map[string]*lock.Client{"far": s.client(t, s.far)})
	require.NoError(t, err)
	p := &program{router: router}
	p.Guard, err = lockguard.NewRouted(router, lockguard.WithObserver(func(_ context.Context, event lockguard.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, event)
	}))
	require.NoError(t, err)
	return p
}

func (s site) client(t *testing.T, server testbed.Server) *lock.Client {
	t.Helper()
	session := harness.Session
	if s.dies != nil && server.Addr() == s.dies.Addr() {
		session = harness.Mortal
	}
	c := harness.NewClient(t, lock.Config{Servers: []string{server.Addr()}, SessionTimeout: session})
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// acquire takes a lock that is free, or soon will be.
func (p *program) acquire(t *testing.T, scope string) *lockguard.Hold {
	t.Helper()
	hold, err := p.Acquire(t.Context(), request(scope, harness.Patience))
	require.NoError(t, err)
	return hold
}

func request(scope string, limit time.Duration) lockguard.Requirement {
	return lockguard.Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: time.Hour, AcquireTimeout: &limit}}
}

// told returns the scopes of all events with a notice of a kind, in order.
func told[N lock.Notice](p *program) (scopes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.events {
		if _, ok := event.Notice.(N); ok {
			scopes = append(scopes, event.Scope)
		}
	}
	return scopes
}

// locks are the nodes of requests that a server has.
func locks(t *testing.T, server testbed.Server) (found []string) {
	t.Helper()
	paths, err := server.Ephemerals(t.Context())
	require.NoError(t, err)
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "/lockkeeper/locks/"); ok {
			found = append(found, rest[strings.LastIndex(rest[:strings.LastIndex(rest, "/")], "/")+1:strings.LastIndex(rest, "/")])
		}
	}
	return found
}

func TestEachLockIsOnTheEnsembleOfItsPrefix(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.program(t), s.program(t)

	near, far := a.acquire(t, "near/a"), a.acquire(t, "far/a")
	require.Equal(t, []string{"near%2Fa"}, locks(t, s.home))
	require.Equal(t, []string{"far%2Fa"}, locks(t, s.far))

	for _, scope := range []string{"near/a", "far/a"} {
		_, err := b.Acquire(t.Context(), request(scope, 0))
		require.ErrorAs(t, err, new(*lock.NotAcquiredError), "%s is held", scope)
	}
	require.NoError(t, far.Release(t.Context()))
	require.NoError(t, b.acquire(t, "far/a").Release(t.Context()))
	require.NoError(t, near.Release(t.Context()))
}

func TestLocksOfOneEnsembleGoOnWhileTheOtherIsAway(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"far", "near"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			s, stays := newSite(t), "near"
			s.dies = s.far
			if away == "near" {
				s.dies, stays = s.home, "far"
			}
			a, b := s.program(t), s.program(t)
			lost, kept := a.acquire(t, away+"/a"), a.acquire(t, stays+"/a")
			require.NoError(t, s.dies.Kill())

			harness.Receive(t, lost.Context().Done(), "the context has not ended")
			require.ErrorAs(t, context.Cause(lost.Context()), new(*lockguard.LostError))
			harness.Eventually(t, func() bool { return len(told[lockguard.Lost](a)) == 1 }, "the loss is not told")
			require.Equal(t, []string{away + "/a"}, told[lockguard.Lost](a), "the event names the scope")

			for range 20 {
				require.NoError(t, b.acquire(t, stays+"/b").Release(t.Context()))
			}
			require.NoError(t, kept.Context().Err())
			require.NoError(t, kept.Check())
			require.NoError(t, kept.Release(t.Context()))
			require.Equal(t, []string{stays + "/a"}, told[lockguard.Released](a))
			_, err := b.Acquire(t.Context(), request(away+"/b", 300*time.Millisecond))
			require.ErrorAs(t, err, new(*lock.UnavailableError))
			require.ErrorContains(t, err, away+"/b")

			require.NoError(t, s.dies.Restart(t.Context()))
			harness.Eventually(t, func() bool {
				hold, err := b.Acquire(t.Context(), request(away+"/b", 2*time.Second))
				if err != nil {
					return false
				}
				return hold.Release(t.Context()) == nil
			}, "it is not back")
			_ = lost.Release(t.Context())
		})
	}
}

func TestLocksOfTwoEnsemblesAreNotTakenTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.program(t)
	var wrong *lockguard.RequestError

	_, err := p.AcquireAll(t.Context(), []lockguard.Requirement{request("near/a", harness.Patience), request("near/b", harness.Patience), request("far/a", harness.Patience)})
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "requirements[2].scope", wrong.Field)
	require.ErrorContains(t, err, `"near/a" is on the home ensemble, "far/a" on the ensemble of the prefix "far": locks of two ensembles are not taken together`)
	require.Empty(t, locks(t, s.home))

	nothing := func(context.Context) error { return errors.New("was run") }
	outer := p.acquire(t, "far/a")
	err = p.Do(outer.Context(), request("near/a", harness.Patience), nothing)
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "scope", wrong.Field)
	require.ErrorContains(t, err, `"far/a" is on the ensemble of the prefix "far", "near/a" on the home ensemble, and the first is held around this`)
	require.Empty(t, locks(t, s.home))

	inner, err := p.AcquireAll(outer.Context(), []lockguard.Requirement{request("far/b", harness.Patience), request("far/c", harness.Patience), request("far/a", harness.Patience)})
	require.NoError(t, err, "of one ensemble they are")
	require.NoError(t, inner.Release(t.Context()))
	require.NoError(t, outer.Release(t.Context()))
	require.NoError(t, p.acquire(t, "near/a").Release(t.Context()), "one after the other")
}
