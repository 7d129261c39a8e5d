package group

import (
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// errGroupLost ends an incarnation whose locks are lost; the participant joins
// again.
var errGroupLost = errors.New("the participant's place in the group is lost")

var _ zkclient.Tenant = (*incarnation)(nil)

func (inc *incarnation) Holding() string { return inc.m.label() }

func (inc *incarnation) Overdue(zkclient.Instant) bool { return false }

func (inc *incarnation) AtRisk(left time.Duration) {
	inc.m.tell(AtRisk{Deadline: time.Now().Add(left)})
}

func (inc *incarnation) SessionLost(cause error) {
	inc.lose(&lock.LostError{Reason: lock.LossSession, Err: cause})
}

// lose ends all locks of the incarnation against its will.
func (inc *incarnation) lose(loss *lock.LostError) {
	m := inc.m
	m.mu.Lock()
	if inc.lost != nil {
		m.mu.Unlock()
		return
	}
	loss.Scope = m.g.spec.Name
	inc.lost = loss
	for grant, h := range inc.holds {
		own := *loss
		own.Scope, own.Token = m.g.spec.Name+"/"+grant.Lock, grant.Token
		h.finish(&own, m.cleanup)
	}
	m.mu.Unlock()
	inc.cancel(errGroupLost)
	inc.s.Unhold(inc)
	m.tell(Lost{Err: loss})
}

// gone ends the incarnation because its node, or what names it, is not there.
func (inc *incarnation) gone(what string) error {
	loss := &lock.LostError{Reason: lock.LossDeleted, Err: errors.New(what)}
	if inc.s.IsOver() {
		loss = &lock.LostError{Reason: lock.LossSession, Err: inc.s.Err()}
	}
	inc.lose(loss)
	return errGroupLost
}

// ruined is gone for the loss of a node that all participants need.
func (inc *incarnation) ruined(what string) error {
	inc.wrecked.Store(true)
	return inc.gone(what)
}
