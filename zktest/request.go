package zktest

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A reply is what a request is answered with, but for the header.
type reply struct {
	code   wire.Code
	body   []byte // only without a code, unless told is set
	told   bool   // body goes with the code
	silent bool   // no answer at all
}

func failed(code wire.Code) reply { return reply{code: code} }

// request executes a request and answers it.
func (s *Server) request(c *conn, body []byte) {
	s.count(c)
	r, err := wire.ParseRequest(body)
	if err != nil && len(body) < 8 {
		s.sever(c)
		return
	}
	c.seen.last, c.seen.lastXid = r.Op, r.Xid
	if r.Op == wire.OpAuth {
		s.authenticate(c, &r, err)
		return
	}
	s.touch(c.session)
	if !known(r.Op) {
		s.answer(c, r.Xid, -1, failed(wire.Unimplemented))
		s.drop(c)
		return
	}
	by := tree.Caller{Session: c.session.id, IDs: c.ids, Over: c.session.over}
	var answer reply
	switch r.Op {
	case wire.OpPing:
		r.Xid = wire.XidPing
	case wire.OpCloseSession:
		x := c.session
		x.conn = nil // it is answered before it ends
		if !x.over {
			s.endSession(x)
		}
		c.listener.replica.catchUp(0)
		s.answer(c, r.Xid, s.leader.zxid, reply{})
		s.drop(c)
		return
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpDeleteContainer, wire.OpSetData, wire.OpSetACL, wire.OpCheck, wire.OpMulti, wire.OpReconfig:
		switch {
		case r.Op == wire.OpDeleteContainer:
			r = wire.Request{Xid: r.Xid, Op: wire.OpDelete} // for the server itself: takes no client's path
		case err != nil:
			r = wire.Request{Xid: r.Xid, Op: wire.OpError} // takes its transaction all the same
		}
		answer = s.write(&r, by)
		c.listener.replica.catchUp(0)
	case wire.OpSync:
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
func known(op wire.Op) bool {
	switch op {
	case wire.OpCreate, wire.OpDelete, wire.OpExists, wire.OpGetData, wire.OpSetData, wire.OpGetACL, wire.OpSetACL,
		wire.OpGetChildren, wire.OpSync, wire.OpPing, wire.OpGetChildren2, wire.OpCheck, wire.OpMulti, wire.OpCreate2,
		wire.OpReconfig, wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpCreateContainer, wire.OpDeleteContainer,
		wire.OpCreateTTL, wire.OpMultiRead, wire.OpSetWatches, wire.OpGetEphemerals, wire.OpAllChildrenNumber,
		wire.OpSetWatches2, wire.OpAddWatch, wire.OpWhoAmI, wire.OpCloseSession:
		return true
	}
	return false
}

func (s *Server) answer(c *conn, xid int32, zxid int64, a reply) {
	b := wire.BeginFrame(make([]byte, 0, 20+len(a.body)))
	b = wire.ReplyHeader{Xid: xid, Zxid: zxid, Code: a.code}.Append(b)
	if a.code == wire.OK || a.told {
		b = append(b, a.body...)
	}
	c.seen.lastZxid = zxid
	c.sent(wire.EndFrame(b, 0))
}

// authenticate adds to who the client is. It takes no part in the order of
// transactions, and its answer has no zxid.
func (s *Server) authenticate(c *conn, r *wire.Request, err error) {
	if err != nil {
		s.sever(c)
		return
	}
	var id wire.ID
	switch {
	case r.Auth.Scheme == "digest" && r.Auth.Secret != nil:
		id = tree.Digest(string(r.Auth.Secret))
	case r.Auth.Scheme == "ip":
		id = c.ids[0]
	default:
		s.answer(c, r.Xid, 0, failed(wire.AuthFailed))
		s.drop(c)
		return
	}
	if !slices.Contains(c.ids, id) {
		c.ids = append(slices.Clip(c.ids), id)
	}
	s.answer(c, r.Xid, 0, reply{})
}

// read answers whatever changes nothing but watches.
func (c *conn) read(r *wire.Request, err error, by tree.Caller) reply {
	if err != nil {
		return failed(wire.MarshallingError)
	}
	t, watches := c.listener.replica.tree, c.listener.replica.watches
	switch r.Op {
	case wire.OpPing:
		return reply{}
	case wire.OpSync:
		if r.NullPath {
			return reply{body: wire.Int32(nil, -1)}
		}
		return reply{body: wire.String(nil, r.Path)}
	case wire.OpSetWatches, wire.OpSetWatches2:
		if !watches.Restore(r.Watches, t, c, tell) {
			return failed(wire.MarshallingError)
		}
		return reply{}
	case wire.OpWhoAmI:
		return reply{body: whoIs(c.ids)}
	case wire.OpMultiRead:
		return c.multiRead(r, by)
	case wire.OpGetEphemerals:
		return ephemerals(t, r, by)
	}
	if r.NullPath && r.Op != wire.OpRemoveWatches {
		return failed(wire.MarshallingError)
	}
	switch r.Op {
	case wire.OpExists:
		if strings.IndexByte(r.Path, 0) >= 0 {
			return failed(wire.BadArguments)
		}
		if r.Watch {
			watches.AddData(r.Path, c)
		}
		stat, code := t.Exists(r.Path)
		return reply{code: code, body: wire.AppendStat(nil, stat)}
	case wire.OpGetData:
		data, stat, code := t.Data(r.Path, by)
		if code == wire.OK && r.Watch {
			watches.AddData(r.Path, c)
		}
		return reply{code: code, body: wire.AppendStat(wire.Buffer(nil, data), stat)}
	case wire.OpGetChildren, wire.OpGetChildren2:
		names, stat, code := t.Children(r.Path, by)
		if code == wire.OK && r.Watch {
			watches.AddChild(r.Path, c)
		}
		body := wire.Strings(nil, names)
		if r.Op == wire.OpGetChildren2 {
			body = wire.AppendStat(body, stat)
		}
		return reply{code: code, body: body}
	case wire.OpGetACL:
		acl, stat, code := t.ACL(r.Path, by)
		return reply{code: code, body: wire.AppendStat(wire.ACLs(nil, acl), stat)}
	case wire.OpAllChildrenNumber:
		n, code := t.Below(r.Path, by)
		return reply{code: code, body: wire.Int32(nil, int32(n))}
	case wire.OpAddWatch:
		mode := tree.Always
		switch r.Mode {
		case 0:
		case 1:
			mode = tree.AlwaysBelow
		default:
			return failed(wire.MarshallingError)
		}
		watches.Add(r.Path, c, mode)
		return reply{body: wire.Int32(nil, 0)}
	case wire.OpRemoveWatches, wire.OpCheckWatches:
		if r.Mode < tree.ChildWatches || r.Mode > tree.AnyWatches {
			return failed(wire.MarshallingError)
		}
		found := watches.Has
		if r.Op == wire.OpRemoveWatches {
			found = watches.Remove
		}
		if !found(r.Path, c, r.Mode) {
			return failed(wire.NoWatcher)
		}
		return reply{}
	}
	return failed(wire.Unimplemented)
}

func ephemerals(t *tree.Tree, r *wire.Request, by tree.Caller) reply {
	paths := t.Ephemerals(by.Session)
	blank := func(c rune) bool { return c <= ' ' } // to Java
	if prefix := strings.TrimFunc(r.Path, blank); prefix != "" && prefix != "/" {
		paths = slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, r.Path) })
	}
	return reply{body: wire.Strings(nil, paths)}
}

func whoIs(ids []wire.ID) []byte {
	b := wire.Int32(nil, int32(len(ids)))
	for _, id := range ids {
		user := id.Name
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = wire.String(wire.String(b, id.Scheme), user)
	}
	return b
}

// multiRead answers several reads at once, each with its own error.
func (c *conn) multiRead(r *wire.Request, by tree.Caller) reply {
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
	return reply{body: wire.MultiHeader(b, wire.OpError, true, -1)}
}

// brokenOff is the answer to several operations of which one made no sense:
// the results before it, with an error for all.
func brokenOff(results []byte) reply {
	return reply{code: wire.MarshallingError, body: wire.MultiHeader(results, wire.OpError, true, -1), told: true}
}

// appendResult appends the result of one operation of several.
func appendResult(b []byte, op wire.Op, a reply) []byte {
	if op == wire.OpError || a.code != wire.OK {
		b = wire.MultiHeader(b, wire.OpError, false, a.code)
		return wire.Int32(b, int32(a.code))
	}
	return append(wire.MultiHeader(b, op, false, wire.OK), a.body...)
}
