package zktest

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A reply is what a request is answered with, but for the header.
type reply struct {
	code   zkwire.Code
	body   []byte // only without a code, unless told is set
	told   bool   // body goes with the code
	silent bool   // no answer at all
}

func failed(code zkwire.Code) reply { return reply{code: code} }

// request executes a request and answers it.
func (s *Server) request(c *conn, body []byte) {
	s.count(c)
	r, err := zkwire.ParseRequest(body)
	if err != nil && len(body) < 8 {
		s.sever(c)
		return
	}
	c.seen.last, c.seen.lastXid = r.Op, r.Xid
	if r.Op == zkwire.OpAuth {
		s.authenticate(c, &r, err)
		return
	}
	s.touch(c.session)
	if !known(r.Op) {
		s.answer(c, r.Xid, -1, failed(zkwire.Unimplemented))
		s.drop(c)
		return
	}
	by := tree.Caller{Session: c.session.id, IDs: c.ids, Over: c.session.over}
	var answer reply
	switch r.Op {
	case zkwire.OpPing:
		r.Xid = zkwire.XidPing
	case zkwire.OpCloseSession:
		x := c.session
		x.conn = nil // it is answered before it ends
		if !x.over {
			s.endSession(x)
		}
		c.listener.replica.catchUp(0)
		s.answer(c, r.Xid, s.leader.zxid, reply{})
		s.drop(c)
		return
	case zkwire.OpCreate, zkwire.OpCreate2, zkwire.OpCreateContainer, zkwire.OpCreateTTL, zkwire.OpDelete,
		zkwire.OpDeleteContainer, zkwire.OpSetData, zkwire.OpSetACL, zkwire.OpCheck, zkwire.OpMulti, zkwire.OpReconfig:
		switch {
		case r.Op == zkwire.OpDeleteContainer:
			r = zkwire.Request{Xid: r.Xid, Op: zkwire.OpDelete} // for the server itself: takes no client's path
		case err != nil:
			r = zkwire.Request{Xid: r.Xid, Op: zkwire.OpError} // takes its transaction all the same
		}
		answer = s.write(&r, by)
		c.listener.replica.catchUp(0)
	case zkwire.OpSync:
		c.listener.replica.catchUp(0)
		answer = c.read(&r, err, by)
	default:
		answer = c.read(&r, err, by)
	}
	if !answer.silent {
		s.answer(c, r.Xid, c.listener.replica.zxid, answer)
	}
}

// known tells whether the server has such an operation.
func known(op zkwire.Op) bool {
	switch op {
	case zkwire.OpCreate, zkwire.OpDelete, zkwire.OpExists, zkwire.OpGetData, zkwire.OpSetData, zkwire.OpGetACL,
		zkwire.OpSetACL, zkwire.OpGetChildren,
		zkwire.OpSync, zkwire.OpPing, zkwire.OpGetChildren2, zkwire.OpCheck, zkwire.OpMulti, zkwire.OpCreate2,
		zkwire.OpReconfig, zkwire.OpCheckWatches, zkwire.OpRemoveWatches, zkwire.OpCreateContainer, zkwire.OpDeleteContainer,
		zkwire.OpCreateTTL, zkwire.OpMultiRead, zkwire.OpSetWatches, zkwire.OpGetEphemerals, zkwire.OpAllChildrenNumber,
		zkwire.OpSetWatches2, zkwire.OpAddWatch, zkwire.OpWhoAmI, zkwire.OpCloseSession:
		return true
	}
	return false
}

func (s *Server) answer(c *conn, xid int32, zxid int64, a reply) {
	b := zkwire.BeginFrame(make([]byte, 0, 20+len(a.body)))
	b = zkwire.ReplyHeader{Xid: xid, Zxid: zxid, Code: a.code}.Append(b)
	if a.code == zkwire.OK || a.told {
		b = append(b, a.body...)
	}
	c.seen.lastZxid = zxid
	c.sent(zkwire.EndFrame(b, 0))
}

// authenticate adds to who the client is. It takes no part in the order of
// transactions, and its answer has no zxid.
func (s *Server) authenticate(c *conn, r *zkwire.Request, err error) {
	if err != nil {
		s.sever(c)
		return
	}
	var id zkwire.ID
	switch {
	case r.Auth.Scheme == "digest" && r.Auth.Secret != nil:
		id = tree.Digest(string(r.Auth.Secret))
	case r.Auth.Scheme == "ip":
		id = c.ids[0]
	default:
		s.answer(c, r.Xid, 0, failed(zkwire.AuthFailed))
		s.drop(c)
		return
	}
	if !slices.Contains(c.ids, id) {
		c.ids = append(slices.Clip(c.ids), id)
	}
	s.answer(c, r.Xid, 0, reply{})
}

// read answers whatever changes nothing but watches.
func (c *conn) read(r *zkwire.Request, err error, by tree.Caller) reply {
	if err != nil {
		return failed(zkwire.MarshallingError)
	}
	t, watches := c.listener.replica.tree, c.listener.replica.watches
	switch r.Op {
	case zkwire.OpPing:
		return reply{}
	case zkwire.OpSync:
		if r.NullPath {
			return reply{body: zkwire.Int32(nil, -1)}
		}
		return reply{body: zkwire.String(nil, r.Path)}
	case zkwire.OpSetWatches, zkwire.OpSetWatches2:
		if !watches.Restore(r.Watches, t, c, tell) {
			return failed(zkwire.MarshallingError)
		}
		return reply{}
	case zkwire.OpWhoAmI:
		return reply{body: whoIs(c.ids)}
	case zkwire.OpMultiRead:
		return c.multiRead(r, by)
	case zkwire.OpGetEphemerals:
		return ephemerals(t, r, by)
	}
	if r.NullPath && r.Op != zkwire.OpRemoveWatches {
		return failed(zkwire.MarshallingError)
	}
	return c.readNode(r, by)
}

// readNode answers what is about one node.
func (c *conn) readNode(r *zkwire.Request, by tree.Caller) reply {
	t, watches := c.listener.replica.tree, c.listener.replica.watches
	switch r.Op {
	case zkwire.OpExists:
		if strings.IndexByte(r.Path, 0) >= 0 {
			return failed(zkwire.BadArguments)
		}
		if r.Watch {
			watches.AddData(r.Path, c)
		}
		stat, code := t.Exists(r.Path)
		return reply{code: code, body: zkwire.AppendStat(nil, stat)}
	case zkwire.OpGetData:
		data, stat, code := t.Data(r.Path, by)
		if code == zkwire.OK && r.Watch {
			watches.AddData(r.Path, c)
		}
		return reply{code: code, body: zkwire.AppendStat(zkwire.Buffer(nil, data), stat)}
	case zkwire.OpGetChildren, zkwire.OpGetChildren2:
		names, stat, code := t.Children(r.Path, by)
		if code == zkwire.OK && r.Watch {
			watches.AddChild(r.Path, c)
		}
		body := zkwire.Strings(nil, names)
		if r.Op == zkwire.OpGetChildren2 {
			body = zkwire.AppendStat(body, stat)
		}
		return reply{code: code, body: body}
	case zkwire.OpGetACL:
		acl, stat, code := t.ACL(r.Path, by)
		return reply{code: code, body: zkwire.AppendStat(zkwire.ACLs(nil, acl), stat)}
	case zkwire.OpAllChildrenNumber:
		n, code := t.Below(r.Path, by)
		return reply{code: code, body: zkwire.Int32(nil, int32(n))}
	case zkwire.OpAddWatch:
		return c.addWatch(r)
	case zkwire.OpRemoveWatches, zkwire.OpCheckWatches:
		return c.findWatches(r)
	}
	return failed(zkwire.Unimplemented)
}

func (c *conn) addWatch(r *zkwire.Request) reply {
	mode := tree.Always
	switch r.Mode {
	case 0:
	case 1:
		mode = tree.AlwaysBelow
	default:
		return failed(zkwire.MarshallingError)
	}
	c.listener.replica.watches.Add(r.Path, c, mode)
	return reply{body: zkwire.Int32(nil, 0)}
}

// findWatches answers whether there are watches on a node, and removes them if
// it is to.
func (c *conn) findWatches(r *zkwire.Request) reply {
	watches := c.listener.replica.watches
	if r.Mode < tree.ChildWatches || r.Mode > tree.AnyWatches {
		return failed(zkwire.MarshallingError)
	}
	found := watches.Has
	if r.Op == zkwire.OpRemoveWatches {
		found = watches.Remove
	}
	if !found(r.Path, c, r.Mode) {
		return failed(zkwire.NoWatcher)
	}
	return reply{}
}

func ephemerals(t *tree.Tree, r *zkwire.Request, by tree.Caller) reply {
	paths := t.Ephemerals(by.Session)
	blank := func(c rune) bool { return c <= ' ' } // to Java
	if prefix := strings.TrimFunc(r.Path, blank); prefix != "" && prefix != "/" {
		paths = slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, r.Path) })
	}
	return reply{body: zkwire.Strings(nil, paths)}
}

func whoIs(ids []zkwire.ID) []byte {
	b := zkwire.Int32(nil, int32(len(ids)))
	for _, id := range ids {
		user := id.Name
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = zkwire.String(zkwire.String(b, id.Scheme), user)
	}
	return b
}

// multiRead answers several reads at once, each with its own error.
func (c *conn) multiRead(r *zkwire.Request, by tree.Caller) reply {
	var b []byte
	for i := range r.Ops {
		sub := &r.Ops[i]
		if !sub.Reads() || sub.NullPath {
			return brokenOff(b)
		}
		sub.Watch = false // ZooKeeper does not look at it here
		answer := c.read(sub, nil, by)
		b = appendResult(b, sub.Op, answer)
	}
	return reply{body: zkwire.MultiHeader(b, zkwire.OpError, true, -1)}
}

// brokenOff is the answer to several operations of which one made no sense:
// the results before it, with an error for all.
func brokenOff(results []byte) reply {
	return reply{code: zkwire.MarshallingError, body: zkwire.MultiHeader(results, zkwire.OpError, true, -1), told: true}
}

// appendResult appends the result of one operation of several.
func appendResult(b []byte, op zkwire.Op, a reply) []byte {
	if op == zkwire.OpError || a.code != zkwire.OK {
		b = zkwire.MultiHeader(b, zkwire.OpError, false, a.code)
		return zkwire.Int32(b, int32(a.code))
	}
	return append(zkwire.MultiHeader(b, op, false, zkwire.OK), a.body...)
}
