package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A workHold is a hold whose end a test decides about.
type workHold struct {
	WorkHold
	ctx          context.Context
	lost, atRisk chan struct{}
}

func (h workHold) Context() context.Context { return h.ctx }
func (h workHold) Info() Info               { return Info{Requirement: Requirement{Scope: scope}, Token: 7} }
func (h workHold) Lost() <-chan struct{}    { return h.lost }
func (h workHold) AtRisk() <-chan struct{}  { return h.atRisk }

func TestWorkIsStoppedByTheFirstOfItsSignals(t *testing.T) {
	lost := &LostError{Scope: scope, Token: 7}
	for name, c := range map[string]struct {
		stop func(w, h context.CancelCauseFunc, hold workHold)
		want error
	}{
		"its context":          {func(w, _ context.CancelCauseFunc, _ workHold) { w(ErrShutdown) }, ErrShutdown},
		"the end of the hold":  {func(_, h context.CancelCauseFunc, _ workHold) { h(ErrReleased) }, ErrReleased},
		"the loss of the lock": {func(_, _ context.CancelCauseFunc, hold workHold) { close(hold.lost) }, lost},
		"the risk of a loss":   {func(_, _ context.CancelCauseFunc, hold workHold) { close(hold.atRisk) }, ErrAtRisk},
		"a loss that is known": {func(_, h context.CancelCauseFunc, hold workHold) { h(&LostError{Scope: "other"}); close(hold.lost) }, &LostError{Scope: "other"}},
		"a loss and a risk":    {func(_, _ context.CancelCauseFunc, hold workHold) { close(hold.lost); close(hold.atRisk) }, lost},
	} {
		synctest.Test(t, func(t *testing.T) {
			work, endWork := context.WithCancelCause(t.Context())
			held, endHold := context.WithCancelCause(t.Context())
			h := workHold{ctx: held, lost: make(chan struct{}), atRisk: make(chan struct{})}
			s := NewStopSignals(work, h, nil)
			ctx, stop := s.Context()
			defer stop()
			require.NoError(t, s.Cause(), name)
			c.stop(endWork, endHold, h)
			require.Equal(t, c.want, s.Cause(), name)
			<-ctx.Done()
			require.Equal(t, c.want, context.Cause(ctx), name)
		})
	}
}

func TestAHookIsNotStoppedByTheEndOfItsHold(t *testing.T) {
	held, end := context.WithCancelCause(t.Context())
	end(ErrReleased)
	s := NewStopSignals(t.Context(), workHold{ctx: held, lost: make(chan struct{}), atRisk: make(chan struct{})}, nil)
	require.NoError(t, s.Cause())
	require.WithinDuration(t, time.Now(), s.GraceEnd(ErrShutdown, time.Hour), time.Minute, "its context ends with the grace period")
}

func TestGraceOfStoppedWorkGoesByItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		s, deadline := NewStopSignals(t.Context(), nil, lost), time.Now().Add(time.Minute)
		require.Equal(t, time.Now().Add(time.Hour), s.GraceEnd(ErrShutdown, time.Hour))
		require.Equal(t, deadline, s.GraceEnd(&PreemptedError{Deadline: deadline}, time.Hour))
		require.Equal(t, time.Now(), s.GraceEnd(&LostError{}, time.Hour))
		require.Equal(t, time.Now(), s.InHook().GraceEnd(ErrShutdown, time.Hour))
		close(lost)
		require.Equal(t, new(LostError), s.Cause())
	})
}
