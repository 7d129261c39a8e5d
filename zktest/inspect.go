package zktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Node is a node as the server has it, whatever its ACL.
type Node struct {
	Path string
	Data []byte // nil: null, which ZooKeeper tells from empty
	Stat Stat
}

// A Stat is what ZooKeeper keeps of a node beside its data.
type Stat struct {
	Czxid, Mzxid, Pzxid         int64 // transactions that created it, last set its data, last changed its children
	Ctime, Mtime                time.Time
	Version, Cversion, Aversion int32 // changes of data, children, access control list
	EphemeralOwner              int64 // session of an ephemeral node, else 0
	NumChildren                 int
}

func publicStat(s zkwire.Stat) Stat {
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Ctime: time.UnixMilli(s.Ctime), Mtime: time.UnixMilli(s.Mtime),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		EphemeralOwner: s.EphemeralOwner, NumChildren: int(s.NumChildren),
	}
}

// String is one line for people.
func (n Node) String() string {
	line := fmt.Sprintf("%s %q v%d zxid %d", n.Path, n.Data, n.Stat.Version, n.Stat.Mzxid)
	if n.Stat.EphemeralOwner != 0 {
		line += fmt.Sprintf(" ephemeral of 0x%x", n.Stat.EphemeralOwner)
	}
	return line
}

// Tree returns the node at path and all below it, parents before children and
// children by name; nothing if there is no such node. "/" is everything,
// ZooKeeper's own nodes included.
func (s *Server) Tree(path string) []Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nodes []Node
	s.leader.tree.Walk(path, func(path string, data []byte, _ []zkwire.ACL, stat zkwire.Stat) {
		nodes = append(nodes, Node{Path: path, Data: slices.Clone(data), Stat: publicStat(stat)})
	})
	return nodes
}

// Dump returns everything but ZooKeeper's own nodes as text, a line each, for
// the output of a test that failed.
func (s *Server) Dump() string {
	var b strings.Builder
	for _, n := range s.Tree("/") {
		if n.Path != "/" && n.Path != "/zookeeper" && !strings.HasPrefix(n.Path, "/zookeeper/") {
			b.WriteString(n.String())
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Zxid returns the last transaction.
func (s *Server) Zxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader.zxid
}

// A Watch is what a client wants to hear of.
type Watch struct {
	Path    string
	Kind    WatchKind
	Session int64
	Name    string // of the client's dialer or its listener, if it has one
}

// A WatchKind says which events a watch is for, and how often.
type WatchKind string

// Kinds of watches.
const (
	DataWatch       WatchKind = "data"       // set by exists and getData, once
	ChildWatch      WatchKind = "child"      // set by getChildren, once
	PersistentWatch WatchKind = "persistent" // set by addWatch
	RecursiveWatch  WatchKind = "recursive"  // set by addWatch, for all nodes below too
)

// Watches returns all watches of all clients, by path, session and kind.
func (s *Server) Watches() []Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Watch
	s.eachReplica(func(r *replica) {
		for _, child := range []bool{false, true} {
			r.watches.Each(child, func(path string, by *conn, mode tree.Mode) {
				w := Watch{Path: path, Kind: DataWatch, Session: by.session.id, Name: cmp.Or(by.name, by.listener.name)}
				switch {
				case mode == tree.Always:
					w.Kind = PersistentWatch
				case mode == tree.AlwaysBelow:
					w.Kind = RecursiveWatch
				case child:
					w.Kind = ChildWatch
				}
				if child && mode != tree.Once {
					return // it is in both lists
				}
				all = append(all, w)
			})
		}
	})
	slices.SortFunc(all, func(a, b Watch) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Session, b.Session),
			strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return all
}

// A Session is a client as the server knows it.
type Session struct {
	ID         int64
	Password   []byte        // who has both may take the session over
	Name       string        // of the dialer or the listener of its connection, if it has one
	Timeout    time.Duration // negotiated
	Expires    time.Duration // how long until it expires, should nothing be heard of it
	Connected  bool
	Ephemerals []string // paths of its nodes, sorted
}

// Sessions returns the sessions that live, by their ids.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		public := Session{
			ID: x.id, Password: slices.Clone(x.password), Timeout: x.timeout, Expires: x.expires - s.clock.elapsed(),
			Connected: x.conn != nil, Ephemerals: slices.Sorted(slices.Values(s.leader.tree.Ephemerals(x.id))),
		}
		if x.conn != nil {
			public.Name = cmp.Or(x.conn.name, x.conn.listener.name)
		}
		all = append(all, public)
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
