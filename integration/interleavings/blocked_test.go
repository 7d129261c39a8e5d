package interleavings

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A listener may use its grant, and must not block. One that does all the same costs its own hold punctuality, and nobody
// else's.
func TestListenerThatBlocksDoesNotKeepOthersFromHearingOfTheirLoss(t *testing.T) {
	each(t, map[string]func(g *recipes.Grant, free chan struct{}){
		"it blocks":           func(_ *recipes.Grant, free chan struct{}) { <-free },
		"it checks its grant": func(g *recipes.Grant, _ chan struct{}) { _ = g.Check() },
	}, func(w *world, hears func(g *recipes.Grant, free chan struct{})) {
		// given two holds of one client, of which one does something when it is told of the risk
		c := w.client("A")
		stuck, free, grants := make(chan struct{}), make(chan struct{}), make(chan *recipes.Grant, 1)
		g, err := c.w.fixture.Lock(c.Client, "stuck").Acquire(w.Context(), recipes.Request{Notify: func(n recipes.Notice) {
			if _, risk := n.(recipes.AtRisk); risk {
				close(stuck)
				hears(<-grants, free)
			}
		}})
		require.NoError(w, err)
		grants <- g
		other := w.hold("A", at(1))

		// when the client is cut off
		cut := w.Now()
		w.Partition("A")
		<-stuck

		// then the other one is lost in time
		_, lost := awaitAt[recipes.Lost](other)
		require.Less(w, lost-cut, c.SessionTimeout())
		close(free)
		w.Heal("A")
		_ = g.Release(context.Background()) // it may be lost as well
	})
}
