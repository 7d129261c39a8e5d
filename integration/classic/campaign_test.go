package classic

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestTermOfACampaignLastsUntilItIsResigned(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine := f.client()

	// given a term whose campaign's context has ended
	ctx, cancel := context.WithCancel(t.Context())
	term, err := f.election(mine, "first", strict).Campaign(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, term.Check())
	require.NoError(t, term.Context().Err())
	require.Greater(t, time.Until(term.Deadline()), time.Second)
	var busy *lock.BusyError
	require.ErrorAs(t, mine.Close(t.Context()), &busy)
	require.Equal(t, []string{office}, busy.Held)

	// when it is resigned, twice
	require.NoError(t, term.Resign(t.Context()))
	require.ErrorIs(t, term.Resign(t.Context()), classic.ErrResigned)

	// then it is over
	require.ErrorIs(t, isOver(t, term), classic.ErrResigned)
	require.ErrorIs(t, term.Check(), classic.ErrResigned)
	require.Empty(t, f.Ephemerals())
}

func TestStrictTermOfACampaignThatIsLostLeavesNoNode(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine, network := f.remote(timeout(30 * time.Second))
	term, err := f.election(mine, "first", strict).Campaign(t.Context())
	require.NoError(t, err)

	require.NoError(t, network.Reset())

	require.Equal(t, lock.LossSession, lossOf(t, isOver(t, term)).Reason)
	f.NoEphemerals()
}

func TestLeaderMayResignWhenItLearnsOfItsElection(t *testing.T) {
	t.Parallel()
	f := share(t)
	var mu sync.Mutex
	var told []classic.ElectionNotice
	var resigned error
	e := f.election(f.client(), "ann", classic.ElectionOptions{TellResignation: true, Notify: func(n classic.ElectionNotice) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, n)
		if n, ok := n.(classic.Elected); ok {
			resigned = n.Term.Resign(context.Background())
		}
	}})

	term := harness.Begin(t, "the campaign", e.Campaign).Granted()

	require.NoError(t, resigned)
	require.ErrorIs(t, term.Err(), classic.ErrResigned)
	f.NoEphemerals()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []classic.ElectionNotice{classic.Elected{Term: term}, classic.Dismissed{Term: term, Err: classic.ErrResigned}}, told)
}
