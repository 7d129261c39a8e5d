package zktest

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// write executes a request that takes a transaction, whether it succeeds or
// not. The caller holds the server's lock.
func (s *Server) write(r *zkwire.Request, by tree.Caller) reply {
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
func tripsOver(r *zkwire.Request) bool {
	return slices.ContainsFunc(r.Ops, func(sub zkwire.Request) bool { return sub.NullPath })
}

// execute makes a transaction of a request, with its changes on the tree.
func execute(on *tree.Tree, r *zkwire.Request, by tree.Caller, t *transaction) ([]tree.Effect, reply) {
	var effects []tree.Effect
	var answer reply
	switch {
	case by.Over:
		answer = failed(zkwire.SessionExpired)
	case r.Op == zkwire.OpError:
		answer = failed(zkwire.MarshallingError)
	case r.Op == zkwire.OpReconfig:
		answer = failed(zkwire.ReconfigDisabled)
	case r.Op == zkwire.OpMulti:
		effects, answer = executeMulti(on, r, by, t)
	default:
		var e tree.Effect
		if e, answer = executeOne(on, r, by, t); answer.code == zkwire.OK {
			effects = []tree.Effect{e}
		}
	}
	for i := range effects {
		if c := effects[i].Change; c.Op != zkwire.OpCheck {
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
func executeOne(on *tree.Tree, r *zkwire.Request, by tree.Caller, t *transaction) (tree.Effect, reply) {
	change, code := on.Check(r, by)
	if code != zkwire.OK {
		return tree.Effect{}, failed(code)
	}
	e := on.Apply(change, t.zxid, t.now)
	switch r.Op {
	case zkwire.OpCreate:
		return e, reply{body: zkwire.String(nil, change.Path)}
	case zkwire.OpCreate2, zkwire.OpCreateContainer, zkwire.OpCreateTTL:
		return e, reply{body: zkwire.AppendStat(zkwire.String(nil, change.Path), e.Stat)}
	case zkwire.OpSetData, zkwire.OpSetACL:
		return e, reply{body: zkwire.AppendStat(nil, e.Stat)}
	case zkwire.OpCheck:
		return e, reply{silent: true} // outside a multi 3.8 fails to write its answer
	}
	return e, reply{}
}

// executeMulti executes all of several writes or none.
func executeMulti(on *tree.Tree, r *zkwire.Request, by tree.Caller, t *transaction) ([]tree.Effect, reply) {
	effects := make([]tree.Effect, 0, len(r.Ops))
	var b []byte
	for i := range r.Ops {
		sub := &r.Ops[i]
		var e tree.Effect
		answer := failed(zkwire.MarshallingError)
		if meansWhatItSays(sub) {
			e, answer = executeOne(on, sub, by, t)
		}
		if answer.code != zkwire.OK {
			for j := len(effects) - 1; j >= 0; j-- {
				effects[j].Undo()
			}
			if answer.code == zkwire.MarshallingError {
				return nil, answer
			}
			return nil, reply{body: aborted(len(r.Ops), i, answer.code)}
		}
		effects = append(effects, e)
		op := sub.Op
		if op == zkwire.OpCreateContainer || op == zkwire.OpCreateTTL {
			op = zkwire.OpCreate2
		}
		b = appendResult(b, op, answer)
	}
	return effects, reply{body: zkwire.MultiHeader(b, zkwire.OpError, true, -1)}
}

// meansWhatItSays gives a create in a multi the operation that its flags mean,
// which count there in place of the one that was sent, and tells whether the
// server can make sense of the result.
func meansWhatItSays(sub *zkwire.Request) bool {
	if sub.Reads() {
		return false
	}
	if !sub.Op.Creates() {
		return true
	}
	if sub.Flags == zkwire.TTL || sub.Flags == zkwire.TTLSequential {
		return sub.Op == zkwire.OpCreateTTL
	}
	sub.Op, sub.TTL = zkwire.OpCreate, -1
	if sub.Flags == zkwire.Container {
		sub.Op = zkwire.OpCreateContainer
	}
	return true
}

// aborted are the results of a multi whose operation number culprit failed.
func aborted(n, culprit int, code zkwire.Code) []byte {
	var b []byte
	for i := range n {
		switch {
		case i < culprit:
			b = appendResult(b, zkwire.OpError, reply{})
		case i == culprit:
			b = appendResult(b, zkwire.OpError, failed(code))
		default:
			b = appendResult(b, zkwire.OpError, failed(zkwire.RuntimeInconsistency))
		}
	}
	return zkwire.MultiHeader(b, zkwire.OpError, true, -1)
}
