package lock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A decision may wrap an error of this package that is tried again elsewhere: it
// ends the request all the same.
func TestDecisionEndsTheRequestWhateverItWraps(t *testing.T) {
	t.Parallel()
	c := onEmbedded(t)
	l, err := c.PriorityLock("users")
	require.NoError(t, err)
	holder, err := l.Acquire(t.Context(), Request{Terms: priority.Terms{Priority: 1}})
	require.NoError(t, err)
	for _, inner := range []error{zkclient.ErrAmbiguous, errAgain, zkclient.ErrSessionOver, errMoved, call.ErrTimeout} {
		cause := fmt.Errorf("denied: %w", inner)
		_, err := l.Acquire(t.Context(), Request{Revise: func() (Revision, <-chan struct{}) { return Revision{Withdraw: cause}, nil }})
		require.ErrorIs(t, err, cause)
		calls := 0
		_, err = l.Acquire(t.Context(), Request{
			Terms:     priority.Terms{Priority: 2, Forceful: true},
			Authorize: func(_ context.Context, _ []Contender) error { calls++; return cause },
		})
		require.ErrorIs(t, err, cause)
		require.Equal(t, 1, calls)
		_, err = c.Break(t.Context(), BreakRequest{
			Scope: "users", Token: holder.token, By: "ana", Reason: "it hangs",
			Authorize: func(context.Context, []Contender) error { return cause },
		})
		require.ErrorIs(t, err, cause)
	}
	require.NoError(t, holder.Release(t.Context()))
}

func onEmbedded(t *testing.T) *Client {
	t.Helper()
	server := zktest.RunT(t)
	c, err := NewClient(zkclient.Config{Servers: []string{server.Addr()}, Auth: &zkclient.Digest{User: "ana", Password: "s3cret"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

func TestTermsAreTheSameWhenTheyAskForTheSame(t *testing.T) {
	t.Parallel()
	mark := &Mark{ID: "INC-1", By: "ana", Reason: "orders are stuck"}
	base := Request{Terms: priority.Terms{Priority: 3, WaitingTimeout: new(time.Second), LeaseTimeout: time.Minute, CleanupTimeout: time.Second}, Override: mark}
	again := base
	again.WaitingTimeout, again.Override = new(time.Second), new(*mark)
	require.True(t, base.sameTerms(&again))
	for name, change := range map[string]func(*Request){
		"priority":           func(r *Request) { r.Priority++ },
		"forceful":           func(r *Request) { r.Forceful = true },
		"waiting timeout":    func(r *Request) { r.WaitingTimeout = new(time.Minute) },
		"no waiting timeout": func(r *Request) { r.WaitingTimeout = nil },
		"lease":              func(r *Request) { r.LeaseTimeout++ },
		"cleanup":            func(r *Request) { r.CleanupTimeout++ },
		"override":           func(r *Request) { r.Override = &Mark{ID: "INC-2"} },
		"no override":        func(r *Request) { r.Override = nil },
	} {
		other := base
		change(&other)
		require.False(t, base.sameTerms(&other), name)
		require.False(t, other.sameTerms(&base), name)
	}
}

// What is not valid UTF-8 comes back from ZooKeeper changed: a mark must not, for
// else the holder would be asked for ever.
func TestMarkComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	r := Request{Override: &Mark{ID: "INC-1", By: "an\xffa", Reason: "<&>\xfe\xfd\u2028 ä"}}
	require.NoError(t, r.complete(unconnected(t)))
	rec, err := decodeContender(newRecord(unconnected(t), r).encode())
	require.NoError(t, err)
	require.Equal(t, r.Override, rec.Override)

	long := Request{Override: &Mark{ID: string(make([]byte, maxMarkID+1))}}
	require.ErrorContains(t, long.complete(unconnected(t)), "override: its id takes 65 bytes; the limit is 64")
}

func TestLossSaysForWhomAndWhy(t *testing.T) {
	t.Parallel()
	mark := &Mark{ID: "INC-1", By: "ana", Reason: "orders are stuck"}
	for want, note := range map[string]evictionNote{
		`lock "users" lost: taken by "boss" after the grace had ended`:                                                      {By: "boss", Reason: priority.Outranked},
		`lock "users" lost: taken by "boss" after the lease and the grace had ended`:                                        {By: "boss", Reason: priority.LeaseExpired},
		`lock "users" lost: taken by "boss" for the override "INC-1" of "ana" (orders are stuck) after the grace had ended`: {By: "boss", Reason: priority.Outranked, Override: mark},
		`lock "users" lost: broken by "ana": it hangs`:                                                                      {By: "ana", Why: "it hangs"},
	} {
		require.EqualError(t, note.loss("users"), want)
	}
	var stale error = &StaleTokenError{Scope: "users", Token: 7, Holders: []Contender{{Identity: priority.Identity{Owner: "batch"}, Token: 9}}}
	require.EqualError(t, stale, `lock "users" not broken: none of its holders has the token 7: held by "batch" (priority 0, token 9); look who has it now and with which token: lockkeeper locks show users`)
}
