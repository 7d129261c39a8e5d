package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Group spreads locks over its participants. Each participant joins under a
// name and is handed its share of the locks; one of them, the controller,
// decides who holds what, and another takes over when it goes. A lock moves
// only after its holder has released it or is gone: there are never more
// holders than declared, and each grant has a fencing token.
//
//	<root>/groups/<name>             persistent: the spec
//	<root>/groups/<name>/members/<participant>-<guid>-<sequence>
//	                                 ephemeral: host, pid, what it has released
//	<root>/groups/<name>/assignment  persistent: who holds what, and who shall
//
// The controller is the participant that came first. Each other one watches
// the one right in front of it. A lock moves in two steps. First the controller
// marks its holder in the assignment; that one ends the lock's context, cleans
// up, and writes into its own node that it has released it. Then the controller
// puts the next holder in its place. Each write of the controller is one
// transaction that contains its own node and the version of the assignment that
// it decided on, for all the locks that can go a step further.
//
// Why there are never two holders: a participant holds a lock only by an entry
// of the assignment that it has read, which bears its guid and the grant's
// token. An entry is taken out only by a write whose author has seen one of two
// facts: the participant wrote that it released that lock under that token, or
// the participant's node is gone. Neither fact can become false again: a guid
// is new for every join, a participant that has released a token never takes it
// up again, and the node is created before any assignment can name it, so that
// a list of participants read after that assignment lacks it only if it is
// gone. A participant that reads late therefore believes that a lock is still
// held, never that it is free; and a write based on an assignment that is not
// the last fails by its version. A participant whose session may have ended
// stops believing in its entries before the server can end the session.
//
// The nodes must not be deleted while participants are there.
type Group struct {
	c          *zkclient.Client
	spec       Spec
	data       []byte // of the spec
	strategies map[string]assignment.Strategy
	notify     func(Notice)
	path       string
}

// Options is what a process adds to a group, beside the spec that all
// share.
type Options struct {
	// Notify, when set, is called with each Notice of the participants that join
	// through the group. Calls for one participant come one at a time, and hold up
	// only Member.Leave, which waits for the last one. Up to 1000 notices wait for
	// a call that takes its time, then the oldest are dropped.
	Notify func(Notice)

	// Strategies are those that are not built in, by the name that
	// Spec.Strategy gives. Any participant may become the one that
	// decides: each should have them. A name that is built in is refused.
	Strategies map[string]assignment.Strategy
}

// New returns the group that spec declares. It does not ask ZooKeeper. It
// returns *RequestError values, joined, for a bad spec. Options are merged; the
// last Notify counts.
func New(c *zkclient.Client, spec Spec, options ...Options) (*Group, error) {
	spec = spec.clone()
	err := spec.Validate()
	spec.complete()
	g := &Group{c: c, spec: spec, strategies: map[string]assignment.Strategy{}}
	errs := []error{err}
	for _, o := range options {
		if o.Notify != nil {
			g.notify = o.Notify
		}
		for _, name := range slices.Sorted(maps.Keys(o.Strategies)) {
			if _, err := assignment.Named(name); err == nil || o.Strategies[name] == nil {
				errs = append(errs, &zkclient.RequestError{
					Field:  "strategies",
					Reason: fmt.Sprintf("%q is built in, empty or nil; give each strategy a name of its own", name),
				})
			}
			g.strategies[name] = o.Strategies[name]
		}
	}
	if _, err := g.strategy(spec.Strategy); err != nil {
		errs = append(errs, &zkclient.RequestError{Field: "strategy", Reason: err.Error()})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if g.path, err = groupPath(c, spec.Name); err != nil {
		return nil, err
	}
	g.data = spec.encode()
	return g, nil
}

// Spec returns what the group was declared with, defaults filled in.
func (g *Group) Spec() Spec { return g.spec.clone() }

// Apply makes the spec known to all participants: they act on it at once. It
// writes nothing when it is in force already, and reports whether it wrote.
func (g *Group) Apply(ctx context.Context) (changed bool, err error) {
	changed, err = g.apply(ctx)
	if err != nil {
		return changed, fmt.Errorf("group %q not applied: %w", g.spec.Name, err)
	}
	return changed, nil
}

func (g *Group) apply(ctx context.Context) (changed bool, err error) {
	if _, err := g.c.Admit(ctx); err != nil {
		return false, err
	}
	for try := 0; ; try++ {
		if err := zkclient.PauseBefore(ctx, try); err != nil {
			return false, err
		}
		data, stat, err := g.c.Get(ctx, g.path)
		switch {
		case errors.Is(err, zkclient.ErrNoNode) || err == nil && len(data) == 0:
			// What belongs to it comes first: the spec says that all is there.
			if err := g.found(ctx); err != nil {
				return false, err
			}
			if err != nil || stat == nil {
				continue
			}
		case err != nil:
			return false, err
		case bytes.Equal(data, g.data):
			return changed, nil
		default:
			if _, err := decodeSpec(data); err != nil {
				return false, znode.InNode(err, g.path) // of a newer version: not ours to overwrite
			}
		}
		_, err = g.c.Multi(ctx, &zkclient.SetDataRequest{Path: g.path, Data: g.data, Version: stat.Version})
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			changed = true // perhaps: the next look tells
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		default:
			return false, err
		}
	}
}

// found creates the nodes of the group.
func (g *Group) found(ctx context.Context) error {
	for _, path := range []string{g.members(), g.assignment()} {
		if err := g.c.Ensure(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// restore makes anew what was deleted while there were participants. A spec that is there is left as it is: it may be
// newer than this one's.
func (g *Group) restore(ctx context.Context) error {
	if err := g.found(ctx); err != nil {
		return err
	}
	data, stat, err := g.c.Get(ctx, g.path)
	if err != nil || len(data) > 0 {
		return err
	}
	_, err = g.c.Multi(ctx, &zkclient.SetDataRequest{Path: g.path, Data: g.data, Version: stat.Version})
	if errors.Is(err, zkclient.ErrBadVersion) {
		return nil
	}
	return err
}

func (g *Group) members() string    { return g.path + "/members" }
func (g *Group) assignment() string { return g.path + "/assignment" }

// strategy returns one by its name, as this process knows it.
func (g *Group) strategy(name string) (assignment.Strategy, error) {
	if s, ok := g.strategies[name]; ok {
		return s, nil
	}
	return assignment.Named(name)
}

func groupPath(c *zkclient.Client, name string) (string, error) {
	escaped, err := znode.EscapeScope(name)
	if err != nil {
		return "", err
	}
	return c.Root() + "/groups/" + escaped, nil
}

func (spec Spec) clone() Spec {
	spec.Locks, spec.Participants = slices.Clone(spec.Locks), slices.Clone(spec.Participants)
	spec.Weights, spec.Pins, spec.Zones = maps.Clone(spec.Weights), maps.Clone(spec.Pins), maps.Clone(spec.Zones)
	return spec
}

// hints are the hints for the strategy.
func (spec *Spec) hints() assignment.Hints {
	return assignment.Hints{
		Holders: spec.Holders, Limit: spec.Limit, Weights: spec.Weights, Pins: spec.Pins, Zones: spec.Zones,
	}
}
