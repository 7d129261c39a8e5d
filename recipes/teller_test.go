package recipes

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestListenerThatBringsSomethingToLightIsToldOfItNext(t *testing.T) {
	t.Parallel()
	var told []Notice
	n := &notices{}
	n.f = func(x Notice) {
		told = append(told, x)
		if _, ok := x.(AtRisk); ok {
			n.send(Lost{}) // as Check does
			require.Len(t, told, 1, "one thing at a time")
		}
	}

	n.send(PreemptRequested{})
	told = nil
	n.send(AtRisk{})

	require.Equal(t, []Notice{AtRisk{}, Lost{}}, told)
}

func TestNothingIsToldAfterALoss(t *testing.T) {
	t.Parallel()
	var told []Notice
	n := &notices{f: func(x Notice) { told = append(told, x) }}

	n.send(Lost{})
	n.send(AtRisk{})
	n.send(Lost{})

	require.Equal(t, []Notice{Lost{}}, told)
}

func TestWhoeverTellsTellsWhatOthersBringMeanwhileInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// given a listener that takes its time
		var told []Notice
		goOn := make(chan struct{})
		n := &notices{f: func(x Notice) {
			told = append(told, x)
			if len(told) == 1 {
				<-goOn
			}
		}}
		go n.send(PreemptRequested{})
		synctest.Wait()

		// when others have something to tell, they need not wait
		n.send(PreemptionWithdrawn{})
		n.send(Lost{})
		require.Len(t, told, 1)

		// then it is told when the listener comes back
		close(goOn)
		synctest.Wait()
		require.Equal(t, []Notice{PreemptRequested{}, PreemptionWithdrawn{}, Lost{}}, told)
	})
}

func TestWhoStopsListeningWaitsForTheLastCallAndHearsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, done := 0, 0
		goOn := make(chan struct{})
		n := &teller[Notice]{f: func(Notice) {
			calls++
			<-goOn
		}}
		go n.sendThen(PreemptRequested{}, func() { done++ })
		synctest.Wait()
		n.sendThen(Lost{}, func() { done++ })

		// when the listener leaves in the middle of a call
		left := make(chan struct{})
		go func() {
			n.mute()
			close(left)
		}()
		synctest.Wait()

		// then that one ends first, and is the last
		select {
		case <-left:
			require.Fail(t, "the listener is still being told")
		default:
		}
		close(goOn)
		<-left
		n.send(AtRisk{})
		require.Equal(t, 1, calls)
		require.Equal(t, 2, done, "who waits for the end of it is told all the same")
	})
}

func TestListenerThatPanicsDoesNotSilenceOthers(t *testing.T) {
	t.Parallel()
	var told []Notice
	n := &notices{f: func(x Notice) {
		told = append(told, x)
		if len(told) == 1 {
			panic(errors.New("no"))
		}
	}}
	require.Panics(t, func() { n.send(PreemptRequested{}) })
	n.send(PreemptionWithdrawn{})
	require.Len(t, told, 2)
	n.mute()
}
