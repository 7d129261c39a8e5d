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
// called again. A preempted holder may downgrade: it stays preempted,
// unless the preemptor can share.
func (h *Hold) Downgrade(ctx context.Context) error {
	if h.isReleased() {
		return ErrReleased
	}
	all := h.locks()
	for i, l := range all {
		if err := l.mayShare(h); err != nil {
			for _, marked := range all[:i] {
				marked.mayNotShare()
			}
			return err
		}
	}
	for _, l := range all {
		if err := l.downgrade(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mayShare refuses a downgrade by one Hold that another counts on, and else
// refuses exclusive nested requests from here on.
func (l *heldLock) mayShare(by *Hold) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requirement.Hold != "" && l.requirement.Mode == priority.Exclusive && l.bypass() == nil {
		return &RequestError{
			Field: "mode",
			Reason: fmt.Sprintf("the lock %s cannot be shared: others may hold it by the same hold (%q); "+
				"ask for shared mode from the beginning, or leave the hold out", l.requirement.Scope, l.requirement.Hold),
		}
	}
	for _, h := range l.holds {
		own := h == by || h.memberOf != nil && h.memberOf == by.bundle
		if !own && h.mode == priority.Exclusive && l.requirement.Mode == priority.Exclusive {
			return &RequestError{
				Field: "mode",
				Reason: "the lock " + l.requirement.Scope + " cannot be shared while another Hold of the same context counts on " +
					"being alone; release that one first, or let it ask for shared mode",
			}
		}
	}
	l.sharing++
	return nil
}

func (l *heldLock) mayNotShare() {
	l.mu.Lock()
	l.sharing--
	l.mu.Unlock()
}

func (l *heldLock) downgrade(ctx context.Context) error {
	l.mu.Lock()
	shared := l.requirement.Mode == priority.Shared
	l.mu.Unlock()
	if shared {
		return nil
	}
	err := l.grant.Downgrade(ctx)
	l.mu.Lock()
	defer l.stream.deliver()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case err != nil:
		return err
	case l.requirement.Mode == priority.Shared: // by another call meanwhile
		return nil
	}
	l.requirement.Mode = priority.Shared
	l.stream.change(func(about *Subject) { about.Mode = priority.Shared })
	l.stream.note(Downgraded{})
	return nil
}
