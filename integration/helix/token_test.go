package helix

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A relay hands one lock from user to user, in any way that there is.
type relay struct {
	h       *house
	clients []*recipes.Client
	next    int
	user    *user           // who holds
	of      *recipes.Client // its client
	level   priority.Level
}

// client is that of the next user: another one than the holder's.
func (r *relay) client() *recipes.Client {
	r.next++
	return r.clients[r.next%len(r.clients)]
}

// ask makes a request of the next user behind the holder.
func (r *relay) ask(level priority.Level, changes ...change) (*user, *recipes.Client) {
	c := r.client()
	u := r.h.ask(c, "user", append(changes, at(level))...)
	return u, c
}

// passTo makes one the holder.
func (r *relay) passTo(u *user, c *recipes.Client, level priority.Level) {
	r.h.t.Helper()
	u.holds()
	r.user, r.of, r.level = u, c, level
}

// ways are how a grant may come about.
func (r *relay) ways() map[string]func() {
	h, t := r.h, r.h.t
	queued := func(level priority.Level, changes ...change) (*user, *recipes.Client) {
		u, c := r.ask(level, changes...)
		await[lockguard.Queued](t, u.told)
		return u, c
	}
	again := func(c *recipes.Client, level priority.Level) {
		r.passTo(h.ask(c, "user", at(level)), c, level)
	}
	return map[string]func(){
		"free, the same client": func() { r.user.release(); again(r.of, 3) },
		"free, another client":  func() { r.user.release(); again(r.client(), 0) },
		"handed over": func() {
			u, c := queued(0)
			r.user.release()
			r.passTo(u, c, 0)
		},
		"handed over to the one that came last": func() {
			early, _ := queued(r.level)
			late, c := r.ask(r.level + 1)
			await[lockguard.PreemptSent](t, late.told)
			require.Error(t, r.user.interrupted(), "until then its list may be one without the last one")
			r.user.release()
			r.passTo(late, c, r.level+1)
			early.cancel(context.Canceled)
			require.Error(t, early.ended())
		},
		"preempted": func() {
			u, c := r.ask(r.level + 1)
			require.ErrorAs(t, r.user.interrupted(), new(*lockguard.PreemptedError))
			require.Equal(t, r.user.token(), h.state().Holders[0].Token, "of a holder that was asked to go")
			r.user.release()
			r.passTo(u, c, r.level+1)
		},
		"taken by force": func() {
			u, c := r.ask(r.level+1, forceful, waiting(0))
			r.user.loses()
			r.passTo(u, c, r.level+1)
		},
		"taken at the end of an extended lease": func() {
			token := r.user.token()
			require.NoError(t, r.user.hold.Extend(t.Context(), time.Millisecond))
			require.Equal(t, token, r.user.token(), "of an extended lease")
			require.Equal(t, token, h.state().Holders[0].Token, "of an extended lease")
			u, c := r.ask(0)
			r.user.loses()
			r.passTo(u, c, 0)
		},
		"session expired": func() {
			u, c := queued(0)
			h.expire(r.of)
			r.user.loses()
			r.passTo(u, c, 0)
		},
		"deleted by an administrator": func() {
			u, c := queued(0)
			h.evictHolder()
			r.user.loses()
			r.passTo(u, c, 0)
		},
	}
}

// Helix 52
func TestTokenGrowsWithEveryGrantHoweverItCameAbout(t *testing.T) {
	t.Parallel()
	const grants = 200
	h := newHouse(t)

	// given a first grant
	r := &relay{h: h, clients: []*recipes.Client{h.client(session(mortal)), h.client(session(mortal)), h.client(session(mortal))}}
	r.passTo(h.ask(r.clients[0], "user"), r.clients[0], 0)
	last := r.user.token()
	require.Positive(t, last)
	ways := r.ways()
	names := slices.Sorted(maps.Keys(ways))
	dice := rand.New(rand.NewPCG(grants, 52))
	for i := range grants {
		// when the lock changes hands in any way
		how := names[dice.IntN(len(names))]
		h.story.tell("test", "%d: %s", i, how)
		ways[how]()

		// then the token is higher than all before it, and everybody agrees on it
		token := r.user.token()
		require.Greater(t, token, last, "grant %d, %s", i, how)
		last = token
		require.Equal(t, token, h.state().Holders[0].Token, "grant %d, %s", i, how)
	}
}
