package tree

import "github.com/lockkeeper/lockkeeper/zkwire"

// A Kind says when a node goes by itself.
type Kind uint8

// Kinds of nodes.
const (
	Persistent Kind = iota
	Ephemeral       // with its session
	Container       // once its last child has gone
	TTL             // once it has had no children and no change for a while
)

type node struct {
	czxid, mzxid, pzxid        int64
	ctime, mtime               int64
	version, aversion, creates int32 // creates: children ever created, mod 2^32
	kind                       Kind
	owner                      int64 // session, or milliseconds to live
	data                       []byte
	acl                        []zkwire.ACL
	children                   set
}

func (n *node) stat() zkwire.Stat {
	s := zkwire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.creates*2 - int32(n.children.len()), Aversion: n.aversion,
		DataLength: int32(len(n.data)), NumChildren: int32(n.children.len()), Pzxid: n.pzxid,
	}
	if n.kind == Ephemeral {
		s.EphemeralOwner = n.owner
	}
	return s
}

// A set is names in no order to depend on, the same in each run.
type set struct {
	names []string
	index map[string]int
}

func (s *set) len() int { return len(s.names) }

func (s *set) add(name string) {
	if s.index == nil {
		s.index = make(map[string]int)
	}
	if _, there := s.index[name]; there {
		return
	}
	s.index[name] = len(s.names)
	s.names = append(s.names, name)
}

func (s *set) remove(name string) {
	i, there := s.index[name]
	if !there {
		return
	}
	last := len(s.names) - 1
	s.names[i] = s.names[last]
	s.index[s.names[i]] = i
	s.names[last] = ""
	s.names = s.names[:last]
	delete(s.index, name)
}

func (s *set) clone() set {
	c := set{}
	for _, name := range s.names {
		c.add(name)
	}
	return c
}
