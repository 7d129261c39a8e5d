package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// State is one group as a look at ZooKeeper shows it.
type State struct {
	Spec       Spec
	Members    []MemberState // in the order in which they came
	Locks      []Lock        // in natural order; those that the group has no more come last
	Generation int64         // how many plans were made, each other than the one before
	Moved      int           // locks that changed hands by the last plan
	MovedTotal int64         // and by all plans

	// StrategyError is why the strategy gave no plan when it was asked last;
	// "" when it did.
	StrategyError string

	// Unreadable are the nodes among the participants that are none, or of which
	// nothing is known but that they are there; by path.
	Unreadable []zkclient.Unreadable
}

// Controller returns the name of the participant that decides; "" without
// participants.
func (s *State) Controller() string {
	for _, m := range s.Members {
		if m.Controller {
			return m.Name
		}
	}
	return ""
}

// MemberState is a participant of a group.
type MemberState struct {
	ID         string // guid, new for every join
	Name       string
	Host       string // unreadable, in angle brackets, when this program cannot read its node
	PID        int
	Since      time.Time // server's clock
	Session    int64
	Controller bool // decides who holds what
	Leaving    bool
	Waiting    bool // for the end of another one of its name
}

// Lock is a lock of a group.
type Lock struct {
	Lock    string
	State   LockState
	Holders []Holder
	Planned []string // names of those who shall hold it
}

// LockState is what has become of a lock.
type LockState string

// The states of a lock.
const (
	Locked   LockState = "LOCKED"   // it has a holder
	Released LockState = "RELEASED" // it has no holder
	Dropped  LockState = "DROPPED"  // the group no longer holds it; its holders release it
)

// Holder is a participant that holds a lock.
type Holder struct {
	ID        string
	Name      string
	Token     lock.Token
	Releasing bool // it was asked to release the lock, and has not yet
}

// All returns all groups, by name, and the nodes that cannot be read, by path:
// groups, and those of each state.
func All(ctx context.Context, c *zkclient.Client) (states []State, left []zkclient.Unreadable, err error) {
	if _, err := c.Admit(ctx); err != nil {
		return nil, nil, fmt.Errorf("groups not listed: %w", err)
	}
	nodes, err := c.Children(ctx, c.Root()+"/groups")
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("groups not listed: %w", err)
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		path := c.Root() + "/groups/" + node
		name, ok := znode.UnescapeScope(node)
		if !ok {
			left = append(left, zkclient.Misplaced(path, NotAGroup))
			continue
		}
		state, err := StateOf(ctx, c, name)
		if errors.As(err, new(*NotFoundError)) {
			err = halfGroup(ctx, c, path)
			if err == nil {
				continue // gone since
			}
		}
		bad, isBad := zkclient.LeftOut(err, path, name)
		switch {
		case isBad:
			left = append(left, bad)
		case err != nil:
			return nil, nil, err
		default:
			states, left = append(states, state), append(left, state.Unreadable...)
		}
	}
	return states, zkclient.ByPath(left), nil
}

// halfGroup says that a node is there, though it is no group; nil: there is none.
func halfGroup(ctx context.Context, c *zkclient.Client, path string) error {
	_, err := c.Stat(ctx, path)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return nil
	case err != nil:
		return fmt.Errorf("groups not listed: %w", err)
	}
	return &znode.RecordError{
		Node: path,
		Err:  errors.New("it is empty, or has no members or no assignment below it, as a group that is being made"),
	}
}

// StateOf returns a group as it stands, or *NotFoundError.
func StateOf(ctx context.Context, c *zkclient.Client, name string) (State, error) {
	state, err := groupStateOf(ctx, c, name)
	var bad *zkclient.RequestError
	switch {
	case err == nil:
		return state, nil
	case errors.Is(err, zkclient.ErrNoNode):
		return state, &NotFoundError{Group: name}
	case errors.As(err, &bad):
		return state, err
	}
	return state, fmt.Errorf("group %q not read: %w", name, err)
}

func groupStateOf(ctx context.Context, c *zkclient.Client, name string) (state State, err error) {
	path, err := groupPath(c, name)
	if err != nil {
		return state, err
	}
	if _, err := c.Admit(ctx); err != nil {
		return state, err
	}
	data, _, err := c.Get(ctx, path)
	if err == nil && len(data) == 0 {
		err = zkclient.ErrNoNode
	}
	if err != nil {
		return state, err
	}
	if state.Spec, err = decodeSpec(data); err != nil {
		return state, znode.InNode(err, path)
	}
	// In the controller's order: a participant that the assignment names and the
	// list does not is gone.
	data, stat, err := c.Get(ctx, path+"/assignment")
	if err != nil {
		return state, err
	}
	a, err := decodeAssignment(data, stat)
	if err != nil {
		return state, znode.InNode(err, path+"/assignment")
	}
	nodes, err := c.Children(ctx, path+"/members")
	if err != nil {
		return state, err
	}
	there, err := state.readMembers(ctx, c, path+"/members", nodes)
	if err != nil {
		return state, err
	}
	zkclient.ByPath(state.Unreadable)
	a.reap(there)
	state.Generation, state.Moved, state.MovedTotal, state.StrategyError = a.generation, a.moved, a.total, a.fault
	state.Locks = a.state(state.Spec.Locks)
	return state, nil
}

// readMembers fills in the members, and what cannot be read of them.
func (s *State) readMembers(ctx context.Context, c *zkclient.Client, members string, nodes []string) (peers, error) {
	there, names := peers{}, map[string]bool{}
	children := parseMembers(nodes)
	s.Unreadable = notMembers(members+"/", nodes, children)
	for _, child := range children {
		node := members + "/" + child.node
		data, stat, err := c.Get(ctx, node)
		var unread error // it is there, and more is not known
		if errors.As(err, new(*zkclient.AccessError)) {
			unread = err
			stat, err = c.Stat(ctx, node)
		}
		if errors.Is(err, zkclient.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !zkclient.IsEphemeral(stat) { // no participant's
			s.Unreadable = append(s.Unreadable, zkclient.Misplaced(node, noSessions))
			continue
		}
		rec, err := decodeMember(data)
		if unread = cmp.Or(unread, err); unread != nil {
			bad, _ := zkclient.LeftOut(unread, node, child.name)
			s.Unreadable = append(s.Unreadable, bad)
			rec = memberRecord{Host: "<unreadable>"}
		}
		there[child.guid] = &peer{groupChild: child, record: rec, read: true}
		s.Members = append(s.Members, MemberState{
			ID: child.guid, Name: child.name, Host: rec.Host, PID: rec.PID, Since: time.UnixMilli(stat.Ctime),
			Session: stat.EphemeralOwner, Controller: len(s.Members) == 0, Leaving: rec.Leaving, Waiting: names[child.name],
		})
		names[child.name] = true
	}
	return there, nil
}

// notMembers are the nodes among the participants that have no participant's name.
func notMembers(members string, nodes []string, children []groupChild) (left []zkclient.Unreadable) {
	for _, node := range nodes {
		if !slices.ContainsFunc(children, func(c groupChild) bool { return c.node == node }) {
			left = append(left, zkclient.Misplaced(members+node, NotAMember))
		}
	}
	return left
}

// state describes the locks for people: those that are declared, then others.
func (a *groupAssignment) state(declared []string) []Lock {
	known := make(map[string]bool, len(declared))
	for _, lock := range declared {
		known[lock] = true
	}
	var others []string
	for lock := range a.locks {
		if !known[lock] {
			others = append(others, lock)
		}
	}
	slices.SortFunc(others, assignment.Compare)
	order := slices.SortedFunc(slices.Values(declared), assignment.Compare)
	locks := make([]Lock, 0, len(declared)+len(others))
	for _, lock := range slices.Concat(order, others) {
		out := Lock{Lock: lock, State: Released}
		if l := a.locks[lock]; l != nil {
			out.Planned = slices.Clone(l.plan)
			for _, e := range l.holders {
				out.Holders = append(out.Holders, Holder{ID: e.guid, Name: e.name, Token: e.token, Releasing: e.revoking})
			}
		}
		switch {
		case !known[lock]:
			out.State = Dropped
		case len(out.Holders) > 0:
			out.State = Locked
		}
		locks = append(locks, out)
	}
	return locks
}
