package temporaltesting

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestWorkflowDoesNotKnowOfTheNextHoldBeforeItIsTold(t *testing.T) {
	tr := newTracker()
	k := &keeper{name: "n", scope: "orders"}
	tr.keepers[k.name] = k
	observe := tr.observer(false)
	tell := func(state string, token lockguard.Token) { k.told, k.token = state, token }
	about := func(id string, token lockguard.Token) lockguard.Subject {
		return lockguard.Subject{ID: id, Scope: "orders", Identity: priority.Identity{Hold: "run/n"}, Token: token}
	}
	settled := func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.isSettledLocked("orders")
	}

	observe(t.Context(), lockguard.Event{Subject: about("1", 0), Notice: lockguard.Waiting{}})
	observe(t.Context(), lockguard.Event{Subject: about("1", 8), Notice: lockguard.Acquired{}})
	require.False(t, settled())
	tell(toldGranted, 8)
	require.True(t, settled())

	observe(t.Context(), lockguard.Event{Subject: about("1", 8), Notice: lockguard.Lost{}})
	require.False(t, settled())
	observe(t.Context(), lockguard.Event{Subject: about("2", 0), Notice: lockguard.Waiting{}})
	observe(t.Context(), lockguard.Event{Subject: about("2", 12), Notice: lockguard.Acquired{}})
	require.False(t, settled(), "it was told of the first hold alone")
	tell("lost", 8)
	require.False(t, settled())
	tell(toldRegranted, 12)
	require.True(t, settled())
}
