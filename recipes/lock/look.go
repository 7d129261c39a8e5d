package lock

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A lockLook is what was read of one lock: G, frozen, and who is there.
type lockLook struct {
	scope, path string
	g           lockRecord
	damage      error // what is wrong with the lock node; g is then what the requests tell
	children    []child
	foreign     []string
}

// delays are the notes of those who are gone.
func (l *lockLook) delays() []delayNote {
	return slices.DeleteFunc(slices.Clone(l.g.Delays), func(n delayNote) bool { return isPresent(l.children, n.ID) })
}

// asksForTime reports whether the state depends on when it is.
func (l *lockLook) asksForTime() bool { return len(l.children) > 0 || len(l.delays()) > 0 }

// state describes the lock at a server time. nodes returns what was read of each
// child.
func (l *lockLook) state(now int64, nodes func(int) *requestNode) (State, error) {
	state := l.damaged()
	state.Foreign = l.foreign
	for _, e := range l.g.Evicted {
		state.Evicted = append(state.Evicted, e.eviction())
	}
	if l.asksForTime() {
		state.At = time.UnixMilli(now)
	}
	for _, n := range l.delays() {
		if d := n.describe(); d.Until.IsZero() || d.Until.After(state.At) {
			state.Delays = append(state.Delays, d)
		}
	}
	holding := l.g.named()
	for i, child := range l.children {
		n, holds := nodes(i), holding(child)
		holds = holds && !l.g.planted(child, n.stat)
		if errors.Is(n.err, zkclient.ErrNoNode) {
			continue // left meanwhile
		}
		unread := cmp.Or(n.err, n.bad)
		bad, isBad := zkclient.LeftOut(unread, l.path+"/"+child.name, l.scope)
		if isBad {
			state.Unreadable = append(state.Unreadable, bad)
		}
		if n.strange && !holds {
			state.Foreign = append(slices.Clip(state.Foreign), child.name)
			continue
		} else if n.err != nil && (!isBad || n.stat == nil) {
			return state, n.err
		}
		contender := n.describe(child)
		if isBad {
			contender = unreadableContender(child, n.stat, told(unread, bad), holds)
		}
		if holds {
			contender.Remaining = n.rec.remaining(n.stat, now)
			state.Holders = append(state.Holders, contender)
			continue
		}
		contender.Position = len(state.Waiters) + 1
		state.Waiters = append(state.Waiters, contender)
	}
	lengthenShown(state.Holders)
	zkclient.ByPath(state.Unreadable)
	return state, nil
}

// damaged is a lock of which nothing more is known than what is wrong with its node.
func (l *lockLook) damaged() State {
	state := State{Scope: l.scope}
	if bad, isBad := zkclient.LeftOut(l.damage, l.path, l.scope); isBad {
		state.Damage, state.Unreadable = told(l.damage, bad), []zkclient.Unreadable{bad}
	} else if l.damage != nil {
		state.Damage = l.damage.Error()
	}
	return state
}

// A requestNode is what was read of a contender's node.
type requestNode struct {
	rec     contenderRecord
	stat    *zkclient.Stat // also of one that may not be read
	err     error          // of the read
	bad     error          // *RecordError: the data cannot be read
	strange bool           // it is no request, unless it holds the lock
}

func newRequestNode(data []byte, stat *zkclient.Stat, err error) requestNode {
	n := requestNode{stat: stat, err: err, strange: whyStranger(data, stat, err) != ""}
	if err == nil {
		n.rec, n.bad = decodeContender(data)
	}
	return n
}

func (n *requestNode) describe(c child) Contender { return n.rec.contender(c, n.stat) }

// told is what a state says of a node that cannot be read. It is no answer to a
// request of this client, so a refusal does not ask for other credentials.
func told(err error, bad zkclient.Unreadable) string {
	if errors.As(err, new(*zkclient.AccessError)) {
		return bad.String()
	}
	return znode.InNode(err, bad.Path).Error()
}

// unreadableContender describes a request that this program cannot read, as far as
// its name and its node's stat tell.
func unreadableContender(c child, stat *zkclient.Stat, why string, holds bool) Contender {
	out := Contender{
		ID: c.guid, Identity: priority.Identity{Owner: "<unreadable>", Message: why},
		Terms:   priority.Terms{Priority: c.level(), Mode: c.mode},
		Session: stat.EphemeralOwner, Joined: time.UnixMilli(stat.Ctime),
	}
	if holds {
		out.Token, out.Since = Token(stat.Mzxid), time.UnixMilli(stat.Mtime)
	}
	return out
}
