package backlog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
)

func TestThingsAreDoneInOrderAMomentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan int, 100)
		b := New(100*time.Millisecond, func(n int) { done <- n })
		for round := range 3 { // the timer is set again, and what was used is used again
			for n := range 5 {
				b.Add(round*10 + n)
			}
			time.Sleep(99 * time.Millisecond)
			synctest.Wait()
			require.Empty(t, done, "before its time")
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			require.Len(t, done, 5)
			for n := range 5 {
				require.Equal(t, round*10+n, <-done)
			}
		}
	})
}

func TestWithoutADelayThingsAreDoneAtOnce(t *testing.T) {
	var done []int
	b := New(0, func(n int) { done = append(done, n) })
	b.Add(1)
	require.Equal(t, []int{1}, done)
	b.Flush()
	require.Equal(t, []int{1}, done)
}

func TestFlushWaitsForWhatIsBeingDone(t *testing.T) {
	begun, goOn, flushed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var done []int
	b := New(time.Hour, func(n int) {
		if n == 1 {
			close(begun)
			<-goOn
		}
		done = append(done, n)
	})
	b.Add(1)
	go b.Flush()
	<-begun
	b.Add(2) // meanwhile
	require.False(t, b.doing.TryLock(), "another one may do things as well")
	go func() {
		b.Flush()
		close(flushed)
	}()
	close(goOn)
	<-flushed
	require.Equal(t, []int{1, 2}, done)
}

func TestAddToAFullBacklogDoesEverything(t *testing.T) {
	done := 0
	b := New(time.Hour, func(int) { done++ })
	for n := range most - 1 {
		b.Add(n)
	}
	require.Zero(t, done)
	b.Add(most)
	require.Equal(t, most, done)
}

func TestAPanicEndsOneThingAlone(t *testing.T) {
	var told []error
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { told = append(told, err) }))
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	var done []int
	b := New(time.Hour, func(n int) {
		if n == 1 {
			panic("no such thing")
		}
		done = append(done, n)
	})
	for n := range 3 {
		b.Add(n)
	}
	b.Flush()
	require.Equal(t, []int{0, 2}, done)
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], "no such thing")
}

func TestNothingIsLostOrDoneTwiceByMany(t *testing.T) {
	const adders, each = 8, 3000
	next := make([]int, adders) // written by one at a time, or the race detector tells
	b := New(time.Microsecond, func(item [2]int) {
		if next[item[0]] != item[1] {
			t.Errorf("adder %d: %d in place of %d", item[0], item[1], next[item[0]])
		}
		next[item[0]]++
	})
	var all sync.WaitGroup
	for adder := range adders {
		all.Go(func() {
			for n := range each {
				b.Add([2]int{adder, n})
				if n%500 == 0 {
					b.Flush()
				}
			}
		})
	}
	all.Wait()
	b.Flush()
	for _, n := range next {
		require.Equal(t, each, n)
	}
}
