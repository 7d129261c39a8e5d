package survey

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Options say what a survey looks for.
type Options struct {
	// IdleSince: a scope without requests counts as idle when it was last locked
	// before that, by the servers' clock. Zero: none does.
	IdleSince time.Time

	// Nodes bounds how many nodes are looked at. Defaults to 20,000.
	Nodes int
}

// Survey is what lies below the root of a client: not of one moment.
type Survey struct {
	Root   string // chroot included
	Exists bool

	// Complete: all nodes were looked at. Else the bound of the options was
	// reached, or the context has ended.
	Complete bool

	Nodes    int // that were looked at
	Scopes   int // that have a node: every one that was ever locked
	Requests int // that hold or wait for a lock

	// Emergencies are the requests at priority.Emergency, by path.
	Emergencies []EmergencyRequest

	Idle      int // scopes, see Options
	Longest   ChildList
	Strangers []Stranger // by path

	// Unreadable are records that this program can make nothing of, and nodes that
	// this client may not read, by path.
	Unreadable []zkclient.Unreadable

	ACLs    []NodeACL // by path
	Refused []string  // nodes that this client may not read, by path
}

// A ChildList is a node's list of children.
type ChildList struct {
	Path     string
	Children int
	Bytes    int // of a reply that lists them
}

// A Stranger is a node that does not belong where it is.
type Stranger struct {
	Path string
	Why  string // for people
}

// An EmergencyRequest is a request at priority.Emergency, holding or waiting.
type EmergencyRequest struct {
	Path  string // of its node
	Scope string
	ID    string // as in LockState
}

// NodeACL is the access control list of a node.
type NodeACL struct {
	Path string
	ACL  []zkclient.ACL
}

const defaultNodes = 20_000

// Take looks at what lies below the root of a client, without writing. When ctx
// ends first, what was seen until then is returned, and is not complete. The
// error is an *UnavailableError, or says why the root cannot be read.
func Take(ctx context.Context, c *zkclient.Client, o Options) (Survey, error) {
	v := &surveyor{o: o, survey: Survey{Root: c.Root(), Complete: true}}
	v.o.Nodes = cmp.Or(o.Nodes, defaultNodes)
	_, err := c.Stat(ctx, c.Root())
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return v.survey, nil
	case err != nil:
		return v.survey, err
	}
	v.survey.Exists = true
	// A read that is under way when ctx ends is not waited for: it goes on with a
	// survey that is not used.
	_, err = zkclient.Promptly(ctx, c, func() (struct{}, error) {
		s, err := c.UsableFor(ctx, false)
		if err != nil {
			return struct{}{}, err
		}
		v.s = s
		return struct{}{}, v.walk(ctx, c.Root())
	}, nil)
	survey := v.result()
	if ctx.Err() != nil {
		survey.Complete, err = false, nil
	}
	return survey, err
}
