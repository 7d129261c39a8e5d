package priority_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

// cause is an error that may wrap another one.
type cause struct {
	priority.CauseInfo
	err error
}

func (c cause) Error() string            { return string(c.Kind) }
func (c cause) Info() priority.CauseInfo { return c.CauseInfo }
func (c cause) Unwrap() error            { return c.err }

func of(kind priority.Kind, scope string) cause {
	return cause{CauseInfo: priority.CauseInfo{Kind: kind, Scope: scope}}
}

// Whatever wraps which, in whatever order they are joined.
func TestOfSeveralCausesTheOneThatCountsMostIsFound(t *testing.T) {
	kinds := priority.Kinds()
	for i, first := range kinds {
		for _, second := range kinds[i+1:] {
			more, less := of(first, "more"), of(second, "less")
			for _, err := range []error{
				errors.Join(more, less), errors.Join(less, more), fmt.Errorf("%w: %w", less, more),
				cause{CauseInfo: less.CauseInfo, err: more},
				cause{CauseInfo: more.CauseInfo, err: fmt.Errorf("x: %w", less)},
			} {
				require.Equal(t, more.CauseInfo, priority.CauseOf(err), "%s and %s", first, second)
			}
		}
	}
}

func TestOfTwoCausesOfAKindTheOuterOneIsFound(t *testing.T) {
	outer := cause{CauseInfo: priority.CauseInfo{Kind: priority.KindShutdown, Scope: "outer"}, err: of(priority.KindShutdown, "inner")}
	require.Equal(t, "outer", priority.CauseOf(fmt.Errorf("x: %w", outer)).Scope)
}

func TestPreemptionIsFoundBesideALoss(t *testing.T) {
	asked := cause{CauseInfo: priority.CauseInfo{Kind: priority.KindPreempted, By: "b", Priority: 3, Deadline: time.Unix(1, 0), Forceful: true}}
	err := errors.Join(of(priority.KindLost, "a"), asked)
	require.Equal(t, priority.KindLost, priority.CauseOf(err).Kind)
	require.Equal(t, asked.CauseInfo, priority.PreemptionOf(err))
}

func TestRefusalIsFoundBesideAPreemption(t *testing.T) {
	err := cause{CauseInfo: priority.CauseInfo{Kind: priority.KindFrozen, Scope: "a"}, err: of(priority.KindPreempted, "outer")}
	require.Equal(t, priority.KindPreempted, priority.CauseOf(err).Kind)
	require.Equal(t, "a", priority.RefusalOf(err).Scope)
}

func TestOtherErrorsHaveNoCause(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), fmt.Errorf("x: %w", errors.ErrUnsupported)} {
		require.Zero(t, priority.CauseOf(err))
	}
	require.Zero(t, priority.PreemptionOf(of(priority.KindLost, "a")))
}
