package lockguard

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObserversKnowTheSpanOfTheWorkFromTheGrantOn(t *testing.T) {
	seen := make(chan string, 8)
	s := newSetup(t, WithObserver(func(ctx context.Context, event Event) {
		switch event.Notice.(type) {
		case Waiting, Released:
			seen <- Traceparent(ctx)
		}
	}), WithContext(func(ctx context.Context, about Subject) context.Context {
		return WithTraceparent(ctx, func() string { return "of the hold of " + about.Scope })
	}))
	caller := WithTraceparent(t.Context(), func() string { return "of the caller" })
	hold := acquire(caller, t, s, Requirement{Scope: "a"})
	require.NoError(t, hold.Release(t.Context()))
	require.Equal(t, "of the caller", <-seen)
	require.Equal(t, "of the hold of a", <-seen)
}
