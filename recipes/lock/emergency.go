package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A request at priority.Emergency is made in the name of an operator's
// override, which has to be in force: when the request is made or raised to
// that level, and again each time that it preempts a holder, or takes the lock.
// What others write into the lock tree past this client is not checked: every
// client that may write there is trusted.

// EmergencyError is returned for a request at priority.Emergency without an
// override that is in force. It is withdrawn.
type EmergencyError struct {
	Scope    string
	Override *Mark // nil: the request names none
	Err      error // why it does not count; nil when there is none
}

func (e *EmergencyError) Error() string {
	s := fmt.Sprintf("lock %q not acquired: emergency priority takes an operator's override that is in force, and ",
		e.Scope)
	if e.Override == nil {
		return s + "the request names none; apply one (lockkeeper override apply), or ask for a lower priority"
	}
	return s + fmt.Sprintf("%q is not: %v; apply one (lockkeeper override apply), or ask for a lower priority",
		e.Override.ID, e.Err)
}

// Unwrap returns why the override does not count.
func (e *EmergencyError) Unwrap() error { return e.Err }

// vouchPatience is how long a request whose override has just ended waits for
// the terms that it has without.
const vouchPatience = 5 * time.Second

// vouch makes sure that the request may ask for what it asks for. It returns
// errAgain when it has changed its terms by now.
func (a *attempt) vouch(ctx context.Context, req *Request) error {
	if req.Priority != priority.Emergency {
		return nil
	}
	err := a.l.vouchEmergency(ctx, req)
	if !errors.As(err, new(*EmergencyError)) {
		return err
	}
	if req.Revise == nil {
		return &finalError{err}
	}
	timer := time.NewTimer(vouchPatience)
	defer timer.Stop()
	select {
	case <-a.changed:
		return errAgain
	case <-timer.C:
		return &finalError{err}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *PriorityLock) vouchEmergency(ctx context.Context, req *Request) error {
	refused := &EmergencyError{Scope: l.scope, Override: req.Override}
	switch {
	case req.Override == nil:
		return refused
	case req.Vouch != nil:
		refused.Err = req.Vouch(ctx, *req.Override)
	default:
		var err error
		if refused.Err, err = opstore.NewOverrideBoard(l.c.Client).GrantsEmergency(ctx,
			l.scope, req.Override.ID); err != nil {
			return err
		}
	}
	if refused.Err == nil {
		return nil
	}
	return refused
}
