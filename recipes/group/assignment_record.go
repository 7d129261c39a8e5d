package group

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A groupAssignment is who holds what and who shall: the data of the assignment
// node. It is written by the controller alone, under the version that was read.
type groupAssignment struct {
	generation int64    // plans that were made, each other than the one before
	spec       int32    // version of the spec that the plan was made for
	live       []string // participants that it was made for
	more       bool     // moves were held back
	fault      string   // why the strategy gave no plan, the last time
	moved      int      // by the last of them
	total      int64    // by all of them
	cleanup    time.Duration
	locks      map[string]*groupLock
}

// groupLock is one lock of it.
type groupLock struct {
	holders []groupEntry
	plan    []string // names, sorted
}

// groupEntry is a grant. While it stands, no other participant has its place,
// unless its participant is gone or has written that it released it.
type groupEntry struct {
	guid     string
	name     string
	token    lock.Token // 0: the zxid of the write that is about to grant it
	revoking bool
}

type assignmentRecord struct {
	Format     int         `json:"format"`
	Generation int64       `json:"generation"`
	Spec       int32       `json:"spec"`
	Live       []string    `json:"live,omitempty"`
	More       bool        `json:"more,omitempty"`
	Fault      string      `json:"strategy_error,omitempty"`
	Moved      int         `json:"moved"`
	Total      int64       `json:"moved_total"`
	Cleanup    int64       `json:"cleanup_timeout_us"`
	Members    []memberRef `json:"members"`
	Names      []string    `json:"names,omitempty"`
	Locks      groupPlaces `json:"locks"`
}

// memberRef is what the holders of a lock refer to by its index.
type memberRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func newAssignment() *groupAssignment {
	return &groupAssignment{spec: -1, locks: map[string]*groupLock{}}
}

func (a *groupAssignment) clone() *groupAssignment {
	b := *a
	b.live = slices.Clone(a.live)
	b.locks = make(map[string]*groupLock, len(a.locks))
	for name, l := range a.locks {
		b.locks[name] = &groupLock{holders: slices.Clone(l.holders), plan: l.plan}
	}
	return &b
}

// planned returns the plan for strategies.
func (a *groupAssignment) planned() assignment.Assignment {
	p := make(assignment.Assignment, len(a.locks))
	for name, l := range a.locks {
		if len(l.plan) > 0 {
			p[name] = slices.Clone(l.plan)
		}
	}
	return p
}

// kept are the names of those that hold the lock and may keep it, sorted.
func (l *groupLock) kept() []string {
	names := make([]string, 0, len(l.holders))
	for _, e := range l.holders {
		if !e.revoking {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *groupAssignment) encode() []byte {
	r := assignmentRecord{
		Format: znode.RecordFormat, Generation: a.generation, Spec: a.spec, Live: a.live, More: a.more, Fault: a.fault,
		Moved: a.moved, Total: a.total, Cleanup: a.cleanup.Microseconds(),
		Members: []memberRef{}, Locks: make(groupPlaces, 0, len(a.locks)),
	}
	members, names := map[string]int{}, map[string]int{}
	for _, lock := range slices.Sorted(maps.Keys(a.locks)) {
		l := a.locks[lock]
		out := groupPlace{lock: lock}
		for _, e := range l.holders {
			i, known := members[e.guid]
			if !known {
				i = len(members)
				members[e.guid] = i
				r.Members = append(r.Members, memberRef{e.guid, e.name})
			}
			out.holders = append(out.holders, placeHolder{member: int64(i), token: e.token, revoking: e.revoking})
		}
		if !slices.Equal(l.plan, l.kept()) {
			out.differs = true
			for _, name := range l.plan {
				i, known := names[name]
				if !known {
					i = len(names)
					names[name] = i
					r.Names = append(r.Names, name)
				}
				out.plan = append(out.plan, i)
			}
		}
		r.Locks = append(r.Locks, out)
	}
	return znode.Encode(r)
}

var errBadAssignment = &znode.RecordError{Err: errors.New("the assignment refers to what it does not have")}

// decodeAssignmentRecord reads what stands in ZooKeeper, and makes sure that
// whatever it refers to is there.
func decodeAssignmentRecord(data []byte) (r assignmentRecord, err error) {
	if err := znode.Decode(data, &r, &r.Format); err != nil {
		return r, err
	}
	for _, p := range r.Locks {
		for _, h := range p.holders {
			if h.member < 0 || h.member >= int64(len(r.Members)) {
				return r, errBadAssignment
			}
		}
		for _, i := range p.plan {
			if i < 0 || i >= len(r.Names) {
				return r, errBadAssignment
			}
		}
	}
	return r, nil
}

// decodeAssignment reads what stands in ZooKeeper. The tokens of what the last
// write granted are its zxid.
func decodeAssignment(data []byte, stat *zkclient.Stat) (*groupAssignment, error) {
	if len(data) == 0 {
		return newAssignment(), nil
	}
	r, err := decodeAssignmentRecord(data)
	if err != nil {
		return nil, err
	}
	a := &groupAssignment{
		generation: r.Generation, spec: r.Spec, live: r.Live, more: r.More, fault: r.Fault, moved: r.Moved, total: r.Total,
		cleanup: time.Duration(r.Cleanup) * time.Microsecond, locks: make(map[string]*groupLock, len(r.Locks)),
	}
	for _, in := range r.Locks {
		l := &groupLock{}
		for _, h := range in.holders {
			m := r.Members[h.member]
			l.holders = append(l.holders, groupEntry{guid: m.ID, name: m.Name, token: h.token, revoking: h.revoking})
		}
		if in.differs {
			l.plan = make([]string, 0, len(in.plan))
			for _, i := range in.plan {
				l.plan = append(l.plan, r.Names[i])
			}
		} else {
			l.plan = l.kept()
		}
		a.locks[in.lock] = l
	}
	a.freeze(stat)
	return a, nil
}

// freeze puts in the token of what was granted by the write that stat tells of.
func (a *groupAssignment) freeze(stat *zkclient.Stat) {
	for _, l := range a.locks {
		for i := range l.holders {
			if l.holders[i].token == 0 {
				l.holders[i].token = lock.Token(stat.Mzxid)
			}
		}
	}
}
