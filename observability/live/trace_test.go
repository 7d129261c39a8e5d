package live

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	aTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	aParent = "00-" + aTrace + "-00f067aa0ba902b7-01"
)

func TestTraceIDIsThatOfATraceparentAndNothingElse(t *testing.T) {
	t.Parallel()
	longer := "cc-" + aTrace + "-00f067aa0ba902b7-01-x" // a later version may have more
	for _, parent := range []string{aParent, "00-" + aTrace + "-00f067aa0ba902b7-00", longer} {
		require.Equal(t, aTrace, TraceID(parent), "%q", parent)
	}
	for _, parent := range []string{
		"",
		"00-x",
		aTrace,
		aParent + "-x",
		aParent + " ",
		"ff-" + aTrace + "-00f067aa0ba902b7-01",
		"0g-" + aTrace + "-00f067aa0ba902b7-01",
		"00-" + aTrace[1:] + "-00f067aa0ba902b7-01",
		"00-" + strings.ToUpper(aTrace) + "-00f067aa0ba902b7-01",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01",
		"00-" + aTrace + "-0000000000000000-01",
		"00-" + aTrace + "-00f067aa0ba902b-01",
		"00-" + aTrace + "-00f067aa0ba902b7-1",
		"00-javascript:alert(document.cook-00f067aa0ba902b7-01",
	} {
		require.Empty(t, TraceID(parent), "%q", parent)
	}
}

func TestJSONHasTheTraceOfARequestThatIsPartOfOne(t *testing.T) {
	t.Parallel()
	traced := lock.Contender{ID: "a", Identity: priority.Identity{Trace: aParent}}
	state := lock.State{
		Scope:   users,
		Holders: []lock.Contender{traced, {ID: "b"}},
		Waiters: []lock.Contender{traced, {ID: "b", Identity: priority.Identity{Trace: "\"><script>"}}},
	}
	text, err := json.Marshal(NewLock(state))
	require.NoError(t, err)
	var v map[string][]map[string]any
	_ = json.Unmarshal(text, &v) // the lists of it
	for _, list := range []string{"holders", "waiters"} {
		require.Len(t, v[list], 2)
		require.Equal(t, aTrace, v[list][0]["trace"], list)
		require.NotContains(t, v[list][1], "trace", list)
	}
}
