package priority_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestOnlySharedHoldersAdmitEachOther(t *testing.T) {
	const unknown = priority.Mode(7)
	for _, m := range []priority.Mode{priority.Exclusive, priority.Shared, unknown} {
		for _, o := range []priority.Mode{priority.Exclusive, priority.Shared, unknown} {
			both := m == priority.Shared && o == priority.Shared
			require.Equal(t, both, m.Admits(o), "%v and %v", m, o)
		}
	}
}

func TestModeTravelsAsText(t *testing.T) {
	for m, text := range map[priority.Mode]string{priority.Exclusive: "exclusive", priority.Shared: "shared"} {
		require.Equal(t, text, m.String())

		parsed, err := priority.ParseMode(text)
		require.NoError(t, err)
		require.Equal(t, m, parsed)

		data, err := json.Marshal(map[string]priority.Mode{"mode": m})
		require.NoError(t, err)
		require.JSONEq(t, `{"mode":"`+text+`"}`, string(data))

		var back map[string]priority.Mode
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, m, back["mode"])
	}
}

func TestUnknownModeIsRefusedWithAWayOut(t *testing.T) {
	for _, text := range []string{"", "Shared", " shared", "read", "0"} {
		_, err := priority.ParseMode(text)
		require.ErrorContains(t, err, "write exclusive or shared", "text %q", text)

		m := priority.Shared
		require.Error(t, m.UnmarshalText([]byte(text)), "text %q", text)
		require.Equal(t, priority.Shared, m, "an error must leave the mode as it was")
	}

	_, err := priority.Mode(7).MarshalText()
	require.EqualError(t, err, "mode 7 is unknown; use Exclusive or Shared")
	require.Equal(t, "Mode(7)", priority.Mode(7).String())
}
