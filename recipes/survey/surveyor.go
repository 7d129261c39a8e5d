package survey

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A surveyor walks through the tree, level by level.
type surveyor struct {
	s *zkclient.Session
	o Options

	mu     sync.Mutex
	survey Survey
}

// A visit is a node that is to be looked at: kind says what it is.
type visit struct {
	path string
	kind nodeKind
}

func (v *surveyor) walk(ctx context.Context, root string) error {
	level := []visit{{root, childOfRoot}}
	for len(level) > 0 {
		var mu sync.Mutex
		var next []visit
		work, inner := errgroup.WithContext(ctx)
		work.SetLimit(16)
		for _, at := range level {
			work.Go(func() error {
				below, err := v.look(inner, at)
				mu.Lock()
				defer mu.Unlock()
				next = append(next, below...)
				return err
			})
		}
		if err := work.Wait(); err != nil {
			return err
		}
		level = next
	}
	return nil
}

// look looks at one node and returns those below it that are to be looked at.
func (v *surveyor) look(ctx context.Context, at visit) ([]visit, error) {
	if !v.mayLook() {
		return nil, nil
	}
	acl, stat, err := v.s.ReadACL(ctx, at.path)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return nil, nil // gone since
	case errors.As(err, new(*zkclient.AccessError)): // nor may it list the children, usually
		if at.kind == nil {
			v.refused(at.path, err)
		}
	case err != nil:
		return nil, err
	default:
		v.note(func(s *Survey) { s.ACLs = append(s.ACLs, NodeACL{at.path, acl}) })
		if isRequestNode(v.survey.Root, at.path) && !zkclient.IsEphemeral(stat) {
			v.note(func(s *Survey) {
				s.Strangers = append(s.Strangers,
					Stranger{at.path, "has the name of a request and is not ephemeral: no session keeps it"})
			})
		}
		if err := v.readRecord(ctx, at.path); err != nil {
			return nil, err
		}
	}
	if at.kind == nil || stat != nil && stat.NumChildren == 0 {
		v.idle(at, stat)
		return nil, nil
	}
	names, stat, err := v.s.List(ctx, at.path)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return nil, nil
	case errors.As(err, new(*zkclient.AccessError)):
		v.refused(at.path, err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	if len(names) == 0 {
		v.idle(at, stat)
	}
	v.measure(at.path, names)
	var below []visit
	for _, name := range names {
		path := at.path + "/" + name
		kind, why := at.kind(v, at, name)
		if why != "" {
			v.note(func(s *Survey) { s.Strangers = append(s.Strangers, Stranger{path, why}) })
			continue
		}
		below = append(below, visit{path, kind})
	}
	return below, nil
}

// readRecord takes note of a record that cannot be read. The error is of the
// connection.
func (v *surveyor) readRecord(ctx context.Context, node string) error {
	record := recordAt(strings.TrimPrefix(node, v.survey.Root+"/"))
	if record == nil {
		return nil
	}
	data, _, err := v.s.Get(ctx, node)
	if err == nil {
		err = znode.InNode(record(data), node)
	}
	bad, isBad := zkclient.LeftOut(err, node, "")
	switch {
	case errors.As(err, new(*zkclient.AccessError)): // its list may be read, and it not
		v.refused(node, err)
	case isBad:
		v.note(func(s *Survey) { s.Unreadable = append(s.Unreadable, bad) })
	case errors.Is(err, zkclient.ErrNoNode): // gone since
	default:
		return err
	}
	return nil
}

func (v *surveyor) refused(node string, err error) {
	bad, _ := zkclient.LeftOut(err, node, "")
	v.note(func(s *Survey) {
		if !slices.Contains(s.Refused, node) { // neither it nor what is below it
			s.Refused, s.Unreadable = append(s.Refused, node), append(s.Unreadable, bad)
		}
	})
}

// mayLook counts a node, unless there were enough.
func (v *surveyor) mayLook() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.survey.Nodes >= v.o.Nodes {
		v.survey.Complete = false
		return false
	}
	v.survey.Nodes++
	return true
}

func (v *surveyor) note(f func(*Survey)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(&v.survey)
}

// idle counts a scope that no client uses.
func (v *surveyor) idle(at visit, stat *zkclient.Stat) {
	if stat == nil || !isLockNode(v.survey.Root, at.path) || v.o.IdleSince.IsZero() {
		return
	}
	if time.UnixMilli(stat.Mtime).Before(v.o.IdleSince) {
		v.note(func(s *Survey) { s.Idle++ })
	}
}

// measure takes note of a list of children.
func (v *surveyor) measure(path string, names []string) {
	bytes := 4
	for _, name := range names {
		bytes += 4 + len(name)
	}
	v.note(func(s *Survey) {
		if len(names) > s.Longest.Children {
			s.Longest = ChildList{Path: path, Children: len(names), Bytes: bytes}
		}
	})
}

// result returns what was seen so far, in order.
func (v *surveyor) result() Survey {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.survey
	s.Strangers, s.ACLs, s.Refused = slices.Clone(s.Strangers), slices.Clone(s.ACLs), slices.Clone(s.Refused)
	s.Emergencies, s.Unreadable = slices.Clone(s.Emergencies), zkclient.ByPath(slices.Clone(s.Unreadable))
	slices.SortFunc(s.Emergencies, func(a, b EmergencyRequest) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(s.Strangers, func(a, b Stranger) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(s.ACLs, func(a, b NodeACL) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(s.Refused)
	return s
}
