package interleavings

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The transactions of docs/protocol.md as they look on the wire, for rules:
// w.On(T4(users).From("H")).Hold() holds the hand-over of client H.

// T1 is the fast acquire: check(root) · create(L/me) · set(L).
func T1(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Create).Path(contenders(scope)).Where(consistsOf(zktest.Check, zktest.Create, zktest.SetData))
}

// T2 joins the queue: create(L/me).
func T2(scope string) zktest.Match { return zktest.Op(zktest.Create).Path(contenders(scope)) }

// T3 is the grant that the first waiter gives itself: set(L/me) · set(L).
func T3(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(contenders(scope)).Where(consistsOf(zktest.SetData, zktest.SetData))
}

// T4 is the hand-over: set(L/successor) · delete(L/me) · set(L).
func T4(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Delete, zktest.SetData).Path(contenders(scope)).Where(func(q zktest.Request) bool { return !takesOver(q) })
}

// T5 is a release with an empty queue: delete(L/me). On the wire it is what T8
// is: From distinguishes them.
func T5(scope string) zktest.Match { return zktest.Op(zktest.Delete).Path(contenders(scope)) }

// T6 preempts a holder: check(L/me) · set(L/holder).
func T6(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(contenders(scope)).Where(consistsOf(zktest.Check, zktest.SetData))
}

// T7 is the takeover: delete(L/holder) · set(L/me) · set(L, evicted).
func T7(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Delete).Path(contenders(scope)).Where(takesOver)
}

// T8 leaves the queue: delete(L/me). See T5.
func T8(scope string) zktest.Match { return T5(scope) }

// T11 extends a lease, and Withdraws takes a request out of a holder's mailbox:
// one write of a contender's node either way.
func T11(scope string) zktest.Match { return zktest.Op(zktest.SetData).Path(contenders(scope)) }

// T12 moves a waiter to the place of another priority: delete(L/me) · create(L/me2).
func T12(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Path(contenders(scope)).Where(consistsOf(zktest.Delete, zktest.Create))
}

// T13 changes what a waiter asks for, in its place: set(L/me). See T11.
func T13(scope string) zktest.Match { return T11(scope) }

// T18 walks in: check(root) · create(L/me) · check(L).
func T18(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Create).Path(contenders(scope)).Where(consistsOf(zktest.Check, zktest.Create, zktest.Check))
}

// Breaks is an operator's break: delete(L/holder) · set(L, evicted). On the wire
// it is a takeover without a grant.
func Breaks(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Path(contenders(scope)).Where(consistsOf(zktest.Delete, zktest.SetData))
}

// Withdraws: see T11.
func Withdraws(scope string) zktest.Match { return T11(scope) }

// Knocks raises the version of the lock node: set(L) · check(L/me).
func Knocks(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(lockNode(scope)).Where(consistsOf(zktest.SetData, zktest.Check))
}

// Lists reads who is there.
func Lists(scope string) zktest.Match { return zktest.Op(zktest.GetChildren).Path(lockNode(scope)) }

// ReadsG reads the lock node's data and version.
func ReadsG(scope string) zktest.Match { return zktest.Op(zktest.GetData).Path(lockNode(scope)) }

// Arms reads the node of a contender, and leaves a watch on it.
func Arms(scope, guid string) zktest.Match {
	return zktest.Op(zktest.GetData).Path(contender(scope, guid)).Where(func(q zktest.Request) bool { return q.Watch })
}

// ArmsAny is Arms for whichever contender is read first.
func ArmsAny(scope string) zktest.Match {
	return zktest.Op(zktest.GetData).Path(contenders(scope)).Where(func(q zktest.Request) bool { return q.Watch })
}

// Reads reads the node of a contender, with a watch or without.
func Reads(scope, guid string) zktest.Match {
	return zktest.Op(zktest.GetData).Path(contender(scope, guid))
}

// Changed is the event that the node of a contender was written: of a waiter, it
// is granted.
func Changed(scope, guid string) zktest.Match {
	return zktest.Event(zktest.NodeDataChanged).Path(contender(scope, guid))
}

// Gone is the event that the node of a contender is no more.
func Gone(scope, guid string) zktest.Match {
	return zktest.Event(zktest.NodeDeleted).Path(contender(scope, guid))
}

func lockNode(scope string) string {
	return "/**/locks/*/" + strings.ReplaceAll(scope, "/", "%2F")
}

func contenders(scope string) string { return lockNode(scope) + "/*" }

func contender(scope, guid string) string { return lockNode(scope) + "/*-" + guid + "-*" }

func consistsOf(kinds ...zktest.OpType) func(zktest.Request) bool {
	return func(q zktest.Request) bool { return slices.Equal(kindsOf(q), kinds) }
}

func kindsOf(q zktest.Request) []zktest.OpType {
	kinds := make([]zktest.OpType, 0, len(q.Ops))
	for _, op := range q.Ops {
		kinds = append(kinds, op.Op)
	}
	return kinds
}

// takesOver tells a takeover from a hand-over: its G says that it evicts those
// whom it deletes.
func takesOver(q zktest.Request) bool {
	if len(q.Ops) == 0 || q.Ops[0].Op != zktest.Delete {
		return false
	}
	var g struct {
		Evicted []struct {
			ID string `json:"id"`
		} `json:"evicted"`
	}
	_ = json.Unmarshal(q.Ops[len(q.Ops)-1].Data, &g) // whatever else it is, it is no takeover
	return len(g.Evicted) > 0 && slices.ContainsFunc(g.Evicted, func(e struct {
		ID string `json:"id"`
	},
	) bool {
		return e.ID == virtual.GUID(q.Ops[0].Path)
	})
}
