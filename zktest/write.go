package zktest

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// write executes a request that takes a transaction, whether it succeeds or
// not. The caller holds the server's lock.
func (s *Server) write(r *wire.Request, by tree.Caller) reply {
	t := s.next()
	if !by.Over && tripsOver(r) {
		return brokenOff(nil) // and its number is lost
	}
	effects, answer := execute(s.leader.tree, r, by, &t)
	s.commit(t, effects)
	return answer
}

// tripsOver tells whether ZooKeeper fails on a request before it makes a
// transaction of it.
func tripsOver(r *wire.Request) bool {
	return slices.ContainsFunc(r.Ops, func(sub wire.Request) bool { return sub.NullPath })
}

// execute makes a transaction of a request, with its changes on the tree.
func execute(on *tree.Tree, r *wire.Request, by tree.Caller, t *transaction) ([]tree.Effect, reply) {
	var effects []tree.Effect
	var answer reply
	switch {
	case by.Over:
		answer = failed(wire.SessionExpired)
	case r.Op == wire.OpError:
		answer = failed(wire.MarshallingError)
	case r.Op == wire.OpReconfig:
		answer = failed(wire.ReconfigDisabled)
	case r.Op == wire.OpMulti:
		effects, answer = executeMulti(on, r, by, t)
	default:
		var e tree.Effect
		if e, answer = executeOne(on, r, by, t); answer.code == wire.OK {
			effects = []tree.Effect{e}
		}
	}
	for i := range effects {
		if c := effects[i].Change; c.Op != wire.OpCheck {
			t.changes = append(t.changes, c)
		}
	}
	return effects, answer
}

// next takes the number of the next transaction.
func (s *Server) next() transaction {
	s.zxid++
	return transaction{zxid: s.zxid, now: s.clock.now()}
}

// executeOne executes a single write.
func executeOne(on *tree.Tree, r *wire.Request, by tree.Caller, t *transaction) (tree.Effect, reply) {
	change, code := on.Check(r, by)
	if code != wire.OK {
		return tree.Effect{}, failed(code)
	}
	e := on.Apply(change, t.zxid, t.now)
	switch r.Op {
	case wire.OpCreate:
		return e, reply{body: wire.String(nil, change.Path)}
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return e, reply{body: wire.AppendStat(wire.String(nil, change.Path), e.Stat)}
	case wire.OpSetData, wire.OpSetACL:
		return e, reply{body: wire.AppendStat(nil, e.Stat)}
	case wire.OpCheck:
		return e, reply{silent: true} // outside a multi 3.8 fails to write its answer
	}
	return e, reply{}
}

// executeMulti executes all of several writes or none.
func executeMulti(on *tree.Tree, r *wire.Request, by tree.Caller, t *transaction) ([]tree.Effect, reply) {
	effects := make([]tree.Effect, 0, len(r.Ops))
	var b []byte
	for i := range r.Ops {
		sub := &r.Ops[i]
		var e tree.Effect
		answer := failed(wire.MarshallingError)
		if meansWhatItSays(sub) {
			e, answer = executeOne(on, sub, by, t)
		}
		if answer.code != wire.OK {
			for j := len(effects) - 1; j >= 0; j-- {
				effects[j].Undo()
			}
			if answer.code == wire.MarshallingError {
				return nil, answer
			}
			return nil, reply{body: aborted(len(r.Ops), i, answer.code)}
		}
		effects = append(effects, e)
		op := sub.Op
		if op == wire.OpCreateContainer || op == wire.OpCreateTTL {
			op = wire.OpCreate2
		}
		b = appendResult(b, op, answer)
	}
	return effects, reply{body: wire.MultiHeader(b, wire.OpError, true, -1)}
}

// meansWhatItSays gives a create in a multi the operation that its flags mean,
// which count there in place of the one that was sent, and tells whether the
// server can make sense of the result.
func meansWhatItSays(sub *wire.Request) bool {
	if sub.Reads() {
		return false
	}
	if !sub.Op.Creates() {
		return true
	}
	if sub.Flags == wire.TTL || sub.Flags == wire.TTLSequential {
		return sub.Op == wire.OpCreateTTL
	}
	sub.Op, sub.TTL = wire.OpCreate, -1
	if sub.Flags == wire.Container {
		sub.Op = wire.OpCreateContainer
	}
	return true
}

// aborted are the results of a multi whose operation number culprit failed.
func aborted(n, culprit int, code wire.Code) []byte {
	var b []byte
	for i := range n {
		switch {
		case i < culprit:
			b = appendResult(b, wire.OpError, reply{})
		case i == culprit:
			b = appendResult(b, wire.OpError, failed(code))
		default:
			b = appendResult(b, wire.OpError, failed(wire.RuntimeInconsistency))
		}
	}
	return wire.MultiHeader(b, wire.OpError, true, -1)
}
