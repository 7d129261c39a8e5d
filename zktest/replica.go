package zktest

import (
	"math"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A replica is the state as the clients of some listeners see it.
type replica struct {
	tree    *tree.Tree
	watches *tree.Watches[*conn]
	zxid    int64

	lag    int           // how many transactions it may be behind
	behind []transaction // not applied yet
}

// A transaction is what one request changed, whole.
type transaction struct {
	zxid    int64
	now     int64
	changes []tree.Change
	closed  *session // that it ends
}

func newReplica(ttl bool) *replica {
	t := tree.New()
	t.TTLs = ttl
	return &replica{tree: t, watches: tree.NewWatches[*conn]()}
}

// tell sends an event to a watcher, unless it may not read the node: real
// servers since CVE-2024-23944 keep quiet then.
func tell(to *conn, event zkwire.EventType, path string, acl []zkwire.ACL) {
	if acl != nil && !tree.Allowed(acl, zkwire.PermRead, to.ids) {
		return
	}
	to.sent(zkwire.AppendNotification(nil, event, path))
}

// commit hands a transaction of the leader on to the lagging replicas. Its
// effects on the leader have been made; their watches fire now.
func (s *Server) commit(t transaction, effects []tree.Effect) {
	s.leader.zxid = t.zxid
	s.dirty()
	for i := range effects {
		s.leader.watches.Fire(&effects[i], tell)
	}
	s.leader.heard(t)
	for _, l := range s.listeners {
		if r := l.replica; r != s.leader {
			r.behind = append(r.behind, t)
			r.catchUp(r.lag)
		}
	}
}

// heard cuts the connection of a session that has ended, where that is known.
func (r *replica) heard(t transaction) {
	if x := t.closed; x != nil && x.conn != nil && x.conn.listener.replica == r {
		x.conn.server.drop(x.conn)
	}
}

// catchUp applies transactions until at most n are left.
func (r *replica) catchUp(n int) {
	for len(r.behind) > n {
		t := r.behind[0]
		r.behind[0] = transaction{}
		r.behind = r.behind[1:]
		for _, change := range t.changes {
			effect := r.tree.Apply(change, t.zxid, t.now)
			r.watches.Fire(&effect, tell)
		}
		r.zxid = t.zxid
		r.heard(t)
	}
}

// eachReplica visits each state that some client sees, once.
func (s *Server) eachReplica(visit func(*replica)) {
	seen := make(map[*replica]bool)
	for _, l := range s.listeners {
		if !seen[l.replica] {
			seen[l.replica] = true
			visit(l.replica)
		}
	}
}

// Lag lets what is read through the listener stay behind what was written
// through others: by up to n transactions, or by all of them with n < 0. A
// write or a sync through the listener catches up first, as a follower of a
// real ensemble does; Lag(0) catches up for good. Watches fire when the
// listener's state passes the change. Restart and LoseData leave the lag as it
// is.
func (l *Listener) Lag(n int) {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		n = math.MaxInt
	}
	if l.replica == s.leader {
		if n == 0 {
			return
		}
		l.replica = &replica{tree: s.leader.tree.Clone(), watches: tree.NewWatches[*conn](), zxid: s.leader.zxid}
		for c := range s.conns {
			if c.listener == l {
				s.leader.watches.Move(c, l.replica.watches)
			}
		}
	}
	l.replica.lag = n
	l.replica.catchUp(n)
}
