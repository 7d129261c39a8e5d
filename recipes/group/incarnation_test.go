package group

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// quiet is a handler that counts what it was called for.
type quiet struct{ locked chan LockGrant }

func (q quiet) OnLocked(_ context.Context, grant LockGrant) { q.locked <- grant }
func (quiet) OnReleased(context.Context, string)            {}
func (quiet) OnDropped(context.Context, string)             {}

// idleSession is one that no server knows of: requests fail, watches are kept.
func idleSession(c *zkclient.Client) *zkclient.Session {
	return c.Current()
}

// shareOf returns what a participant reads of an assignment.
func shareOf(t *testing.T, a *groupAssignment, inc *incarnation) groupShare {
	share, err := decodeShare(a.encode(), &zkclient.Stat{Mzxid: 99}, inc.guid)
	require.NoError(t, err)
	return share
}

// slow is a handler whose callbacks take as long as the test says.
type slow struct {
	quiet
	locked   chan context.Context
	goOn     chan struct{}
	cleaning chan context.Context
}

func (h slow) OnLocked(ctx context.Context, _ LockGrant) {
	h.locked <- ctx
	<-h.goOn
}

func (h slow) OnReleased(ctx context.Context, _ string) {
	h.cleaning <- ctx
	<-ctx.Done()
}

// A participant that cleans up after a request to release learns of a loss,
// wherever it is at that time.
func TestLossOfALockThatIsBeingReleasedIsReported(t *testing.T) {
	t.Parallel()
	begin := func() (*incarnation, slow, context.Context) {
		m := aloof(t, nil)
		m.cleanup = time.Hour
		h := slow{locked: make(chan context.Context, 1), goOn: make(chan struct{}), cleaning: make(chan context.Context, 1)}
		m.handler = h
		inc := newIncarnation(m, idleSession(m.c))
		a := newAssignment()
		a.locks["x"] = &groupLock{holders: []groupEntry{{guid: inc.guid, name: "a", token: 5}}, plan: []string{"a"}}
		inc.obey(shareOf(t, a, inc))
		ctx := <-h.locked
		a.locks["x"].holders[0].revoking = true
		inc.obey(shareOf(t, a, inc))
		<-ctx.Done()
		return inc, h, ctx
	}
	var lost *lock.LostError

	// given one that cleans up, when its session is lost
	inc, h, _ := begin()
	close(h.goOn)
	cleaning := <-h.cleaning
	require.NoError(t, cleaning.Err())
	inc.lose(&lock.LostError{Reason: lock.LossSession})

	// then the cleanup's context ends
	<-cleaning.Done()
	require.ErrorAs(t, context.Cause(cleaning), &lost)
	<-inc.m.work.Done()

	// given one that still winds up its work, when its session is lost
	inc, h, ctx := begin()
	select {
	case <-LockGone(ctx):
		require.FailNow(t, "it is held")
	default:
	}
	inc.lose(&lock.LostError{Reason: lock.LossSession})

	// then the participant and its cleanup learn of it
	<-LockGone(ctx)
	close(h.goOn)
	cleaning = <-h.cleaning
	<-cleaning.Done()
	require.ErrorAs(t, context.Cause(cleaning), &lost)
	<-inc.m.work.Done()
}

func TestIncarnationThatIsLostTakesNothingUpThatItReadsAfterwards(t *testing.T) {
	t.Parallel()
	granted := func(inc *incarnation) *groupAssignment {
		a := newAssignment()
		a.locks["x"] = &groupLock{holders: []groupEntry{{guid: inc.guid, name: "a", token: 5}}, plan: []string{"a"}}
		return a
	}
	m := aloof(t, nil)
	handler := quiet{locked: make(chan LockGrant, 9)}
	m.handler = handler

	// given an incarnation that takes up what it is given
	inc := newIncarnation(m, idleSession(m.c))
	inc.obey(shareOf(t, granted(inc), inc))
	require.Equal(t, LockGrant{Lock: "x", Token: 5}, <-handler.locked)
	require.Len(t, inc.holds, 1)

	// when another one is lost, and reads late that it was given a lock
	late := newIncarnation(m, idleSession(m.c))
	late.lose(&lock.LostError{Reason: lock.LossSession})
	late.obey(shareOf(t, granted(late), late))

	// then nothing starts
	<-m.work.Done()
	require.Empty(t, late.holds)
	require.Empty(t, handler.locked)
}
