package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// ErrAtRisk is why work was stopped whose lock may soon be lost: ZooKeeper does
// not answer, and only just enough time is left to stop in order.
var ErrAtRisk = errors.New("ZooKeeper does not answer and the lock may soon be lost")

// A WorkHold is what work outside this process needs of the lock that it runs
// under. *Hold is one.
type WorkHold interface {
	Context() context.Context
	Info() Info
	Tokens() map[string]Token
	Lost() <-chan struct{}
	AtRisk() <-chan struct{} // closed while there is time to stop before Lost
	Trace() string
}

var _ WorkHold = (*Hold)(nil)

// StopSignals are all that may end running work, each with its cause.
type StopSignals struct {
	Work   context.Context // that of the work itself
	Hold   context.Context // ends like Work or before it; never ends in a hook
	Lost   <-chan struct{}
	AtRisk <-chan struct{}

	inHook bool              // Work ends with the grace period
	says   []context.Context // which may say what Lost means
	loss   error             // what it means if they do not
}

// NewStopSignals returns those of work with ctx under h. Without a hold, h is nil,
// and lost, which may be nil, is closed when what the work runs under is lost.
func NewStopSignals(ctx context.Context, h WorkHold, lost <-chan struct{}) StopSignals {
	s := StopSignals{Work: ctx, Hold: context.Background(), says: []context.Context{ctx}}
	if h == nil {
		s.Lost, s.loss = lost, new(LostError)
		return s
	}
	info := h.Info()
	s.says = append(s.says, h.Context())
	s.AtRisk, s.Lost, s.loss = h.AtRisk(), h.Lost(), &LostError{Scope: info.Requirement.Scope, Token: info.Token}
	// A hook runs under a live context of its own, when that of its hold has
	// ended.
	if h.Context().Err() == nil {
		s.Hold = h.Context()
	} else {
		s.inHook = true
	}
	return s
}

// InHook returns the signals of work that is a cleanup hook: its context ends with
// the grace period.
func (s StopSignals) InHook() StopSignals {
	s.inHook = true
	return s
}

// Cause returns why the work must not go on, or even start; nil if it may.
func (s StopSignals) Cause() error {
	switch {
	case s.Work.Err() != nil:
		return context.Cause(s.Work)
	case s.IsLost():
		return s.LossCause()
	case s.Hold.Err() != nil:
		return context.Cause(s.Hold)
	case isClosed(s.AtRisk):
		return ErrAtRisk
	}
	return nil
}

// IsLost reports whether Lost is closed.
func (s StopSignals) IsLost() bool { return isClosed(s.Lost) }

// LossCause is what the contexts say about the loss, which may be more than the
// *LostError that it is otherwise.
func (s StopSignals) LossCause() error {
	for _, ctx := range s.says {
		if cause := context.Cause(ctx); priority.CauseOf(cause).Kind == priority.KindLost {
			return cause
		}
	}
	return s.loss
}

// Context returns a context that ends with the first of the signals, with its
// cause. The caller calls stop.
func (s StopSignals) Context() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(s.Work)
	go func() {
		select {
		case <-ctx.Done():
		case <-s.Hold.Done():
		case <-s.Lost:
		case <-s.AtRisk:
		}
		cancel(s.Cause())
	}()
	return ctx, func() { cancel(nil) }
}

// GraceEnd is when work has to have ended that is cancelled with cause: now after a
// loss and in a hook, at its deadline after a preemption, else after cleanup.
func (s StopSignals) GraceEnd(cause error, cleanup time.Duration) time.Time {
	switch c := priority.CauseOf(cause); {
	case s.inHook, c.Kind == priority.KindLost:
		return time.Now()
	case c.Kind.IsPreemption():
		return c.Deadline
	}
	return time.Now().Add(cleanup)
}
