package survey

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// nodeKind is a kind of node: what its children may be.
type nodeKind func(v *surveyor, parent visit, name string) (child nodeKind, why string)

// isRequestNode reports whether a node that has passed for one is a request's.
func isRequestNode(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root+"/locks/")
	return ok && strings.Count(rest, "/") == 2
}

func isLockNode(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root+"/locks/")
	return ok && strings.Count(rest, "/") == 1
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
//
//nolint:cyclop // one case for each kind of node
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
