package recipes

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSurveyKnowsWhatBelongsIntoEachRoom(t *testing.T) {
	t.Parallel()
	require.Equal(t, rooms, slices.Sorted(maps.Keys(kinds)))
}
