package lockguard

import (
	"context"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Downgrade makes an exclusive Hold a shared one without giving the lock up:
// shared requests that are next in line come to hold beside it. Lease, token
// and context stay. A shared Hold stays what it is. There is no way back, see
// UpgradeError.
//
// It is refused with a *RequestError while a nested Hold counts on being alone,
// with the *LostError after a loss and with ErrReleased after the release. A
// holder that was asked to go may downgrade: it goes on being asked, unless
// the one that asks can share.
func (h *Hold) Downgrade(ctx context.Context) error {
	h.tenure.mu.Lock()
	over := h.phase == ended
	h.tenure.mu.Unlock()
	if over {
		return ErrReleased
	}
	for _, t := range h.tenures() {
		if err := t.alone(h); err != nil {
			return err
		}
	}
	for _, t := range h.tenures() {
		if err := t.downgrade(ctx); err != nil {
			return err
		}
	}
	return nil
}

// alone refuses a downgrade by one Hold that another counts on.
func (t *tenure) alone(by *Hold) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.holds {
		if h != by && h.memberOf == nil && h.mode == priority.Exclusive && t.requirement.Mode == priority.Exclusive {
			return &RequestError{
				Field:  "mode",
				Reason: "the lock " + t.requirement.Scope + " cannot be shared while another Hold of the same context counts on being alone; release that one first, or let it ask for shared mode",
			}
		}
	}
	return nil
}

func (t *tenure) downgrade(ctx context.Context) error {
	t.mu.Lock()
	shared := t.requirement.Mode == priority.Shared
	t.requirement.Mode = priority.Shared // nested requests are refused from here on as they will be
	t.mu.Unlock()
	if shared {
		return nil
	}
	err := t.grant.Downgrade(ctx)
	t.mu.Lock()
	defer t.stream.deliver()
	defer t.mu.Unlock()
	if t.lost != nil {
		return t.lost
	}
	if err != nil {
		return err // it may be shared all the same
	}
	t.subject.Mode = priority.Shared
	t.stream.add(Downgraded{t.aboutLocked()})
	return nil
}
