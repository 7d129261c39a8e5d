package temporal_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A depot is a struct of activities that says which locks they need.
type depot struct{ cluster string }

func (d *depot) Load(ctx context.Context) (string, error) {
	hold, ok := lockguard.FromContext(ctx)
	if !ok {
		return "no lock", nil
	}
	return hold.Info().Requirement.Scope, nil
}

func (d *depot) Locks() map[string]temporal.Lock {
	return map[string]temporal.Lock{"Load": lockOn("cluster/" + d.cluster)}
}

func TestActivityStructsOfTwoWorkersHaveLocksOfTheirOwn(t *testing.T) {
	// given two workers with one plugin, whose structs differ in what they lock
	p := newPlugin(t, newGuard(t, zktest.RunT(t), "workers"))
	east, west := activities(p), activities(p)
	skip := activity.RegisterOptions{SkipInvalidStructFunctions: true}
	east.RegisterActivityWithOptions(&depot{"east"}, skip)
	west.RegisterActivityWithOptions(&depot{"west"}, skip)

	for want, env := range map[string]*testsuite.TestActivityEnvironment{"cluster/east": east, "cluster/west": west} {
		// when
		value, err := env.ExecuteActivity("Load")

		// then
		require.NoError(t, err)
		var scope string
		require.NoError(t, value.Get(&scope))
		require.Equal(t, want, scope)
	}
}

// yard has the activities of a struct that declares locks, beside another one that
// does as well: Go promotes neither of their methods Locks.
type (
	yard struct {
		*depot
		*garage
	}
	garage struct{}
	fence  struct{ yard } // at a distance
)

func (*garage) Repair(context.Context) error    { return nil }
func (*garage) Locks() map[string]temporal.Lock { return nil }

func TestActivityStructWhoseLocksAreHiddenIsRefused(t *testing.T) {
	env := activities(newPlugin(t, newGuard(t, zktest.RunT(t), "worker")))
	for _, hidden := range []any{&yard{new(depot), new(garage)}, &fence{yard{new(depot), new(garage)}}} {
		require.PanicsWithError(t, fmt.Sprintf("temporal: %T has the activities of *temporal_test.depot, but not its method Locks, so they would run without their locks: write one that returns the locks of all its activities", hidden),
			func() { env.RegisterActivity(hidden) })
	}
	require.NotPanics(t, func() { env.RegisterActivity(new(chain)) })
}

// chain is embedded in itself, and declares no lock.
type chain struct{ *chain }

func (*chain) Pull(context.Context) error { return nil }
