package classic

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A taking takes something.
type taking func(ctx context.Context) error

func taken(acquire acquirer) taking {
	return func(ctx context.Context) error {
		_, err := acquire(ctx)
		return err
	}
}

// The caller leaves while the answer that would grant is on its way for long.
func TestLateAnswerThatGrantsToACallerThatHasLeftIsUndone(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]struct {
		op   uint32 // whose answer grants
		take func(h *house, c *recipes.Client) taking
	}{
		"mutex":  {opGetChildren2, func(h *house, c *recipes.Client) taking { return taken(h.mutex(c).Acquire) }},
		"permit": {opMulti, func(h *house, c *recipes.Client) taking { return taken(h.semaphore(c, permits(1)).Acquire) }},
		"term": {opGetData, func(h *house, c *recipes.Client) taking {
			e, err := c.Election(office, "first", recipes.ElectionOptions{})
			require.NoError(h.t, err)
			return func(ctx context.Context) error {
				_, err := e.Campaign(ctx)
				return err
			}
		}},
		"member of a double barrier": {opMulti, func(h *house, c *recipes.Client) taking {
			b := h.doubleBarrier(c, 1)
			return func(ctx context.Context) error {
				_, err := b.Enter(ctx)
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			w := &wire{}
			c := h.client(through(w))
			take := play.take(h, c)
			for _, directory := range []string{users, desks + "/locks", desks + "/leases", office, meeting} {
				h.make(h.shell(), directory, nil, 0)
			}
			require.NoError(t, c.Ready(t.Context()))

			// given a request whose last answer is kept back
			sent, deliver := make(chan struct{}), make(chan struct{})
			w.behind(play.op, 0, func() {
				close(sent)
				<-deliver
			})
			request := h.begin(take)
			<-sent

			// when the caller leaves, and then the answer comes
			request.cancel()
			require.ErrorIs(t, request.ended(), context.Canceled)
			close(deliver)

			// then nothing is held, nor left open
			h.nobodyThere()
			h.gone(h.shell(), ready)
		})
	}
}
