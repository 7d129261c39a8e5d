package zkdiff

import (
	"math"
	"testing"
	"time"
)

// brief is the timeout of a session that is to end. A machine that stands still for seconds does not end it earlier.
const brief = 10 * time.Second

// A session that says nothing ends: its nodes go under one zxid, watches fire, its connection is closed, and it cannot
// come back.
func TestSilentSessionExpires(t *testing.T) {
	told(t, oracle, embedded, func(n *narrator) {
		n.timeout = brief
		n.take(Script{
			{Do: Create, Path: "/e1", ACL: everybody, Flags: ephemeral},
			{Do: Create, Path: "/e2-", ACL: everybody, Flags: ephemeralSequential},
			{Do: Create, Path: "/stays", ACL: everybody},
			{Do: Create, Path: "/stays/e3", ACL: everybody, Flags: ephemeral},
		}...)
		n.timeout = longSession
		lastHeardOf := time.Now()
		n.take(Script{
			{On: 1, Do: AddWatch, Path: "/stays/e3", Mode: 0},
			{On: 1, Do: Exists, Path: "/e1", Watch: true},
			{On: 2, Do: GetChildren2, Path: "/stays", Watch: true},
			{On: 3, Do: GetChildren2, Path: "/e1", Watch: true},
		}...)
		n.await(0, errClosed.Error())
		n.note(0, "too early: %t", time.Since(lastHeardOf) < brief)
		n.await(1, event(nodeDeleted, "/e1"))
		n.await(1, event(nodeDeleted, "/stays/e3"))
		n.await(2, event(nodeChildrenChanged, "/stays"))
		n.await(3, event(nodeDeleted, "/e1"))
		sortEvents(n.heard[1])
		n.take(Script{
			{On: 1, Do: GetChildren2, Path: "/"},
			{On: 2, Do: GetChildren2, Path: "/stays"},
			{Do: WhoAmI}, // tries to come back, is refused, begins anew
		}...)
	})
}

// What keeps a session alive, and what does not.
func TestSessionThatIsHeardOfLives(t *testing.T) {
	told(t, oracle, embedded, func(n *narrator) {
		n.timeout = brief
		n.take(Script{
			{On: 0, Do: Create, Path: "/silent", ACL: everybody, Flags: ephemeral},
			{On: 1, Do: Create, Path: "/pings", ACL: everybody, Flags: ephemeral},
		}...)
		n.timeout = 2 * brief // so that it ends after the silent one
		n.take(Script{
			{On: 2, Do: Create, Path: "/hung-up", ACL: everybody, Flags: ephemeral},
			{On: 2, Do: Drop},
		}...)
		n.timeout = longSession
		n.take(Script{
			{On: 3, Do: Exists, Path: "/silent", Watch: true},
			{On: 3, Do: Exists, Path: "/pings", Watch: true},
			{On: 3, Do: Exists, Path: "/hung-up", Watch: true},
		}...)
		n.await(3, event(nodeDeleted, "/silent"), 1)
		n.await(3, event(nodeDeleted, "/hung-up"), 1)
		n.listen(0, tick)
		n.clients[1].conn.Close()
		n.clients[1].conn = nil
		n.await(3, event(nodeDeleted, "/pings"))
	})
}

// The session timeout that a client gets for the one that it asks for.
func TestSessionTimeoutsAreGranted(t *testing.T) {
	told(t, oracle, embedded, func(n *narrator) {
		for _, ms := range []int64{math.MinInt32, -1, 0, 1, 399, 400, 401, 1000, 12345, 59999, 60000, 60001, math.MaxInt32} {
			c, err := n.dial()
			if err != nil {
				n.note(0, "dial: %v", err)
				continue
			}
			c.send(greeting(session{}, 0, time.Duration(ms)*time.Millisecond))
			if frame, err := c.receive(patience); err != nil {
				n.note(0, "greeting: %v", err)
			} else {
				text, _ := n.welcome(frame)
				n.note(0, "%s", text)
			}
			c.Close() // a short session may end before it could be closed
		}
	})
}
