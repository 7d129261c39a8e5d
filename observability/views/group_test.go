package views_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

func TestListsOfAGroupAreNeverNull(t *testing.T) {
	empty, err := json.Marshal(views.NewGroup(group.State{}))
	require.NoError(t, err)
	require.Contains(t, string(empty), `"members":[],"locks":[]`)

	unplanned, err := json.Marshal(views.NewGroup(group.State{Locks: []group.Lock{{Lock: "a"}}}))
	require.NoError(t, err)
	require.Contains(t, string(unplanned), `"holders":[],"planned":[]`)
}
