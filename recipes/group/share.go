package group

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A groupShare is what the assignment says to one participant: the rest of it,
// of which there is a hundred times as much, is not made anything of.
type groupShare struct {
	cleanup time.Duration
	entries []groupOrder // what it holds, in no order
	locks   groupPlaces
}

// A groupOrder is a grant, and whether it has to be released.
type groupOrder struct {
	grant    LockGrant
	revoking bool
}

// decodeShare reads what stands in ZooKeeper for the participant with a guid.
func decodeShare(data []byte, stat *zkclient.Stat, guid string) (share groupShare, err error) {
	if len(data) == 0 {
		return share, nil
	}
	r, err := decodeAssignmentRecord(data)
	if err != nil {
		return share, err
	}
	share.cleanup, share.locks = time.Duration(r.Cleanup)*time.Microsecond, r.Locks
	for _, p := range r.Locks {
		for _, h := range p.holders {
			if r.Members[h.member].ID != guid {
				continue
			}
			grant := LockGrant{Lock: strings.Clone(p.lock), Token: h.token} // it is kept longer than all others
			if grant.Token == 0 {
				grant.Token = lock.Token(stat.Mzxid)
			}
			share.entries = append(share.entries, groupOrder{grant, h.revoking})
		}
	}
	return share, nil
}

// has reports whether there is a lock of that name in the assignment.
func (s groupShare) has(lock string) bool {
	_, found := slices.BinarySearchFunc(s.locks, lock, func(p groupPlace, lock string) int {
		return strings.Compare(p.lock, lock)
	})
	return found
}

// lookAtPlaces reads the assignment and acts on it.
func (inc *incarnation) lookAtPlaces() error {
	m := inc.m
	data, stat, err := inc.s.Look(inc.ctx, m.g.assignment(), &inc.placeWatch)
	if errors.Is(err, zkclient.ErrNoNode) {
		return inc.ruined("the group's assignment was deleted")
	}
	if err != nil {
		return err
	}
	if stat.Mzxid < inc.seen {
		return nil // older than what is known
	}
	share, err := decodeShare(data, stat, inc.guid)
	if err != nil {
		return znode.InNode(err, m.g.assignment())
	}
	inc.seen = stat.Mzxid
	if inc.controller != nil {
		inc.controller.heard(stat.Version)
	}
	inc.obey(share)
	return nil
}

// obey starts and ends holds as the assignment says.
func (inc *incarnation) obey(share groupShare) {
	m := inc.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if inc.lost != nil {
		return
	}
	if share.cleanup > 0 {
		m.cleanup = share.cleanup
	}
	listed := make(map[LockGrant]struct{}, len(share.entries))
	for _, e := range share.entries {
		grant := e.grant
		listed[grant] = struct{}{}
		if _, released := inc.let[grant]; released {
			continue
		}
		h := inc.holds[grant]
		switch {
		case h == nil && (e.revoking || m.leaving):
			inc.release(grant) // it was never taken up
		case h == nil:
			inc.holds[grant] = m.start(inc, grant)
		case e.revoking:
			h.finish(&ReleaseAskedError{Group: m.g.spec.Name, Lock: grant.Lock, Token: grant.Token, Reason: ReleaseMoved},
				m.cleanup)
		}
	}
	for grant := range inc.let {
		if _, there := listed[grant]; !there {
			delete(inc.let, grant) // with the next write
		}
	}
	for grant, h := range inc.holds {
		if _, there := listed[grant]; !there { // another participant believes that we are gone
			delete(inc.holds, grant)
			h.finish(&lock.LostError{
				Scope: m.g.spec.Name + "/" + grant.Lock, Token: grant.Token, Reason: lock.LossDeleted,
				Err: errors.New("the assignment does not name this participant any more"),
			}, m.cleanup)
		}
	}
	for lock, cell := range m.cells {
		if !share.has(lock) {
			cell.dropped()
		}
	}
}
