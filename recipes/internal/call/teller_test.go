package call

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The news; a loss is the last.
const (
	asked     = "asked to release"
	withdrawn = "not asked any more"
	atRisk    = "at risk"
	lost      = "lost"
)

func listener(f func(string)) *Teller[string] {
	return &Teller[string]{Listener: f, Last: func(n string) bool { return n == lost }}
}

func TestListenerGetsTheNoticesThatItCausesNext(t *testing.T) {
	t.Parallel()
	var told []string
	n := listener(nil)
	n.Listener = func(x string) {
		told = append(told, x)
		if x == atRisk {
			n.Send(lost) // as Check does
			require.Len(t, told, 1, "one thing at a time")
		}
	}

	n.Send(asked)
	told = nil
	n.Send(atRisk)

	require.Equal(t, []string{atRisk, lost}, told)
}

func TestNoNoticeFollowsALoss(t *testing.T) {
	t.Parallel()
	var told []string
	n := listener(func(x string) { told = append(told, x) })

	n.Send(lost)
	n.Send(atRisk)
	n.Send(lost)

	require.Equal(t, []string{lost}, told)
}

func TestTellerDeliversWhatArrivesMeanwhileInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// given a listener that takes its time
		var told []string
		goOn := make(chan struct{})
		n := listener(func(x string) {
			told = append(told, x)
			if len(told) == 1 {
				<-goOn
			}
		})
		go n.Send(asked)
		synctest.Wait()

		// when others have something to tell, they need not wait
		n.Send(withdrawn)
		n.Send(lost)
		require.Len(t, told, 1)

		// then it is delivered when the listener comes back
		close(goOn)
		synctest.Wait()
		require.Equal(t, []string{asked, withdrawn, lost}, told)
	})
}

func TestMuteWaitsForTheLastCallAndEndsTheNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, done := 0, 0
		goOn := make(chan struct{})
		n := listener(func(string) {
			calls++
			<-goOn
		})
		go n.SendThen(asked, func() { done++ })
		synctest.Wait()
		n.SendThen(lost, func() { done++ })

		// when the listener leaves in the middle of a call
		left := make(chan struct{})
		go func() {
			n.Mute()
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
		n.Send(atRisk)
		require.Equal(t, 1, calls)
		require.Equal(t, 2, done, "its done function runs all the same")
	})
}

func TestListenerThatPanicsDoesNotSilenceOthers(t *testing.T) {
	t.Parallel()
	var told []string
	n := listener(func(x string) {
		told = append(told, x)
		if len(told) == 1 {
			panic(errors.New("no"))
		}
	})
	require.Panics(t, func() { n.Send(asked) })
	n.Send(withdrawn)
	require.Len(t, told, 2)
	n.Mute()
}
