package recipes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// quiet is a handler that counts what it was called for.
type quiet struct{ locked chan LockGrant }

func (q quiet) OnLocked(_ context.Context, grant LockGrant) { q.locked <- grant }
func (quiet) OnReleased(context.Context, string)            {}
func (quiet) OnDropped(context.Context, string)             {}

// idleSession is one that no server knows of: requests fail, watches are kept.
func idleSession(c *Client) *session {
	return &session{c: c, watches: newWatchTable(), over: make(chan struct{}), ready: make(chan struct{}), tenants: map[tenant]struct{}{}}
}

func TestIncarnationThatIsLostTakesNothingUpThatItReadsAfterwards(t *testing.T) {
	t.Parallel()
	granted := func(inc *incarnation) *groupAssignment {
		a := newAssignment()
		a.locks["x"] = &groupLock{holders: []groupEntry{{guid: inc.guid, name: "a", token: 5}}, plan: []string{"a"}}
		return a
	}
	m := aloof(nil)
	handler := quiet{locked: make(chan LockGrant, 9)}
	m.handler = handler

	// given an incarnation that takes up what it is given
	inc := newIncarnation(m, idleSession(m.c))
	inc.obey(granted(inc))
	require.Equal(t, LockGrant{Lock: "x", Token: 5}, <-handler.locked)
	require.Len(t, inc.holds, 1)

	// when another one is lost, and reads late that it was given a lock
	late := newIncarnation(m, idleSession(m.c))
	late.lose(&LostError{Reason: LossSession})
	late.obey(granted(late))

	// then nothing starts
	<-m.work.done()
	require.Empty(t, late.holds)
	require.Empty(t, handler.locked)
}
