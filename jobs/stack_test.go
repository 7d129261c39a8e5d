package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waitHere is where the stacks of these tests are.
func waitHere(at chan<- struct{}, until <-chan struct{}) {
	at <- struct{}{}
	<-until
}

func TestStackOfARunTellsWhereItsGoroutinesAre(t *testing.T) {
	// given a job whose work has started two goroutines, and a run of another
	at, until := make(chan struct{}), make(chan struct{})
	work := Func(func(context.Context, Run) error {
		done := make(chan struct{}, 2)
		for range 2 {
			go func() { waitHere(at, until); done <- struct{}{} }()
		}
		at <- struct{}{}
		<-done
		<-done
		return nil
	})
	ended := make(chan error, 2)
	for _, run := range []string{"one", `tricky "lockkeeper_run":"one"`} {
		go func() { ended <- Job{Name: "stuck", Work: work}.Do(t.Context(), nil, Run{Attempt: run}) }()
	}
	for range 6 {
		<-at
	}

	// when it is asked for, once they stand still
	var stack string
	require.Eventually(t, func() bool {
		stack = StackOf("one")
		return strings.Contains(stack, "2 goroutines in\n")
	}, patience, time.Millisecond)

	// then it shows these, and no other's
	require.Contains(t, stack, "\tgithub.com/lockkeeper/lockkeeper/jobs.waitHere\n\t\t")
	require.Contains(t, stack, "1 goroutine in\n")
	require.Contains(t, stack, "stack_test.go:")
	require.Equal(t, 2, strings.Count(stack, " in\n"))
	require.Empty(t, StackOf(""))
	require.Empty(t, StackOf("two"))

	// and nothing once it is over
	close(until)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return StackOf("one") == "" }, patience, time.Millisecond)
}

func TestStackOfAHookIsThatOfItsRun(t *testing.T) {
	at, until := make(chan struct{}), make(chan struct{})
	_, hooks := Job{Name: "j", Work: WithCleanup(nothing, func(context.Context, Run) error {
		waitHere(at, until)
		return nil
	})}.Bind(Run{Attempt: "cleans up"})
	ended := make(chan error, 1)
	go func() { ended <- hooks[0](context.Background()) }()
	<-at
	require.Contains(t, StackOf("cleans up"), "jobs.waitHere")
	close(until)
	require.NoError(t, <-ended)
}

func TestStackOfIsBounded(t *testing.T) {
	// given a run with goroutines in many places
	at, until := make(chan struct{}), make(chan struct{})
	const depths = 100
	var descend func(depth int)
	descend = func(depth int) {
		if depth > 0 {
			descend(depth - 1)
			return
		}
		waitHere(at, until)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Job{Name: "j", Work: Func(func(context.Context, Run) error {
			done := make(chan struct{})
			for depth := range depths {
				go func() { descend(depth); done <- struct{}{} }()
			}
			for range depths {
				<-done
			}
			return nil
		})}.Do(t.Context(), nil, Run{Attempt: "wide"})
	}()
	for range depths {
		<-at
	}

	// when it is asked for
	stack := StackOf("wide")

	// then it says what it leaves out
	require.LessOrEqual(t, len(stack), MaxStack)
	require.Greater(t, len(stack), MaxStack/2)
	shown := strings.Count(stack, " in\n")
	require.True(t, strings.HasSuffix(stack, fmt.Sprintf("and %d more stacks\n", depths+1-shown)), "%s", stack[len(stack)-200:])
	close(until)
	require.NoError(t, <-ended)
}
