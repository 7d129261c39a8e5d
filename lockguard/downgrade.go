package lockguard

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Downgrade makes an exclusive Hold a shared one without giving the lock up:
// shared requests that are next in line come to hold beside it. Of several
// locks all become shared. Lease, token and context stay. A shared Hold stays
// what it is. There is no way back, see UpgradeError.
//
// It is refused with a *RequestError if the requirement had a Hold, and while another Hold of the same context
// counts on being alone, with the *LostError after a loss and with ErrReleased
// after the release. Any other error leaves open whether the lock is shared:
// exclusive nested requests are refused from then on, and Downgrade may be
// called again. A holder that was asked to go may downgrade: it goes on being
// asked, unless the one that asks can share.
func (h *Hold) Downgrade(ctx context.Context) error {
	h.tenure.mu.Lock()
	over := h.phase == ended
	h.tenure.mu.Unlock()
	if over {
		return ErrReleased
	}
	all := h.tenures()
	for i, t := range all {
		if err := t.mayShare(h); err != nil {
			for _, marked := range all[:i] {
				marked.mayNotShare()
			}
			return err
		}
	}
	for _, t := range all {
		if err := t.downgrade(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mayShare refuses a downgrade by one Hold that another counts on, and else
// refuses exclusive nested requests from here on.
func (t *tenure) mayShare(by *Hold) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requirement.Hold != "" && t.requirement.Mode == priority.Exclusive && t.bypass == nil {
		return &RequestError{
			Field:  "mode",
			Reason: fmt.Sprintf("the lock %s cannot be shared: others may hold it by the same hold (%q); ask for shared mode from the beginning, or leave the hold out", t.requirement.Scope, t.requirement.Hold),
		}
	}
	for _, h := range t.holds {
		own := h == by || h.memberOf != nil && h.memberOf == by.bundle
		if !own && h.mode == priority.Exclusive && t.requirement.Mode == priority.Exclusive {
			return &RequestError{
				Field:  "mode",
				Reason: "the lock " + t.requirement.Scope + " cannot be shared while another Hold of the same context counts on being alone; release that one first, or let it ask for shared mode",
			}
		}
	}
	t.sharing++
	return nil
}

func (t *tenure) mayNotShare() {
	t.mu.Lock()
	t.sharing--
	t.mu.Unlock()
}

func (t *tenure) downgrade(ctx context.Context) error {
	t.mu.Lock()
	shared := t.requirement.Mode == priority.Shared
	t.mu.Unlock()
	if shared {
		return nil
	}
	err := t.grant.Downgrade(ctx)
	t.mu.Lock()
	defer t.stream.deliver()
	defer t.mu.Unlock()
	switch {
	case t.lost != nil:
		return t.lost
	case err != nil:
		return err
	case t.requirement.Mode == priority.Shared: // by another call meanwhile
		return nil
	}
	t.requirement.Mode, t.subject.Mode = priority.Shared, priority.Shared
	t.addLocked(Downgraded{})
	return nil
}
