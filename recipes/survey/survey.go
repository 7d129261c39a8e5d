package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
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

// nodeKind is a kind of node: what its children may be.
type nodeKind func(v *surveyor, parent visit, name string) (child nodeKind, why string)

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
				s.Strangers = append(s.Strangers, Stranger{at.path, "has the name of a request and is not ephemeral: no session keeps it"})
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

// isRequestNode reports whether a node that has passed for one is a request's.
func isRequestNode(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root+"/locks/")
	return ok && strings.Count(rest, "/") == 2
}

func isLockNode(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root+"/locks/")
	return ok && strings.Count(rest, "/") == 1
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

// --- what belongs where ------------------------------------------------------------

// kinds are the rooms below the root, each with what its children are.
var kinds = map[string]nodeKind{
	"approvals":  childOfApprovals,
	"audit":      childOfAudit,
	"clock":      nothing,
	"emergency":  childOfEmergency,
	"gc":         nothing,
	"groups":     childOfGroups,
	"identities": nothing,
	"locks":      childOfLocks,
	"seal":       nothing,
	"overrides":  nothing,
	"requests":   anything, // for runs by hand
	"ticks":      childOfTicks,
}

// recordAt returns how to read what stands in a node, by its path below the
// root; nil: nothing that is read.
func recordAt(path string) func(data []byte) error {
	room, below, _ := strings.Cut(path, "/")
	deep := strings.Count(path, "/") // levels below the room
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case room == "approvals" && deep == 1:
		return opstore.CheckApproval
	case room == "audit" && deep == 0:
		return opstore.CheckAuditHead
	case room == "audit" && deep == 2:
		return opstore.CheckAuditNode
	case room == "emergency" && deep == 2 && strings.HasPrefix(below, "frozen/"):
		return lock.CheckFrozenRecord
	case room == "emergency" && deep == 2 && strings.HasPrefix(below, "notes/"):
		return decodeErrandNote
	case room == "groups" && deep == 1:
		return group.CheckSpec
	case room == "groups" && deep == 2 && last == "assignment":
		return group.CheckAssignment
	case room == "groups" && deep == 3:
		return group.CheckMember
	case room == zkclient.RoomIdentities && deep == 0:
		return zkclient.CheckIdentitiesRecord
	case room == "locks" && deep == 2:
		return lock.CheckLockRecord
	case room == "locks" && deep == 3:
		return lock.CheckRequestRecord
	case room == "overrides" && deep == 0:
		return opstore.CheckOverrides
	case room == "requests" && deep == 1:
		return ticks.CheckRequest
	case room == "seal" && deep == 0:
		return func(data []byte) error { var r zkclient.SealRecord; return znode.Decode(data, &r, &r.Format) }
	case room == "ticks" && deep == 1:
		return ticks.CheckRecord
	}
	return nil
}

// decodeErrandNote reads a note as far as all of them are alike.
func decodeErrandNote(data []byte) error {
	var note map[string]json.RawMessage
	if err := json.Unmarshal(data, &note); err != nil {
		return &znode.RecordError{Err: err}
	}
	return nil
}

func childOfRoot(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if kind, known := kinds[name]; known {
		return kind, ""
	}
	switch {
	case zkclient.IsScratch(name):
		return nil, "left by a measurement that did not end in good order, unless one runs now"
	case strings.HasPrefix(name, zkclient.ProbeName):
		return nil, "" // a probe, which goes with its session
	}
	return nil, "nothing of this version's"
}

func anything(_ *surveyor, _ visit, _ string) (nodeKind, string) { return nil, "" }

func nothing(_ *surveyor, _ visit, _ string) (nodeKind, string) {
	return nil, "its parent has no children"
}

func childOfApprovals(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if !opstore.IsApprovalID(name) {
		return nil, opstore.NotAQuestion
	}
	return nil, ""
}

func childOfEmergency(_ *surveyor, _ visit, name string) (nodeKind, string) {
	switch name {
	case "frozen", "notes", "turns":
		return anything, ""
	}
	return nil, "overrides have turns, notes and frozen requests only"
}

func childOfLocks(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if lock.IsBucket(name) {
		return childOfBucket, ""
	}
	return nil, "not one of the 256 buckets of the locks"
}

func childOfBucket(v *surveyor, parent visit, name string) (nodeKind, string) {
	if _, why := lock.ScopeIn(v.survey.Root, parent.path, name); why != "" {
		return nil, why
	}
	v.note(func(s *Survey) { s.Scopes++ })
	return childOfLock, ""
}

func childOfLock(v *surveyor, parent visit, name string) (nodeKind, string) {
	id, level, ok := lock.ParseRequestName(name)
	if !ok {
		return nil, "neither holds nor waits for the lock: its name is no request's"
	}
	v.note(func(s *Survey) {
		s.Requests++
		if scope, ok := znode.UnescapeScope(path.Base(parent.path)); ok && level == priority.Emergency {
			s.Emergencies = append(s.Emergencies, EmergencyRequest{Path: parent.path + "/" + name, Scope: scope, ID: id})
		}
	})
	return nil, ""
}

func childOfTicks(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if _, ok := znode.UnescapeScope(name); !ok {
		return nil, ticks.NotAJob
	}
	return childOfJob, ""
}

func childOfJob(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if !strings.HasPrefix(name, ticks.MarkerPrefix) {
		return nil, "marks no run of the job"
	}
	return nil, ""
}

func childOfGroups(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if _, ok := znode.UnescapeScope(name); !ok {
		return nil, group.NotAGroup
	}
	return childOfGroup, ""
}

func childOfGroup(_ *surveyor, _ visit, name string) (nodeKind, string) {
	switch name {
	case "members":
		return childOfMembers, ""
	case "assignment":
		return nil, ""
	}
	return nil, "a group has members and an assignment only"
}

func childOfMembers(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if !group.IsMember(name) {
		return nil, group.NotAMember
	}
	return nil, ""
}

func childOfAudit(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if name != "log" {
		return nil, "the audit trail has its log only"
	}
	return childOfAuditLog, ""
}

func childOfAuditLog(_ *surveyor, _ visit, name string) (nodeKind, string) {
	if len(name) != 10 || strings.Trim(name, "0123456789") != "" {
		return nil, "its name is no record's"
	}
	return nil, ""
}
