package lock

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A record that can be read may have times in it that JSON cannot write: one of them must
// not cost the whole list.
func TestTimesThatCannotBeWrittenDownAreMovedToWhereTheyCan(t *testing.T) {
	const late, early = `"9999-12-31T23:59:59-12:00"`, `"0000-01-01T00:00:00+12:00"`
	server := zktest.RunT(t)
	c, err := NewClient(zkclient.Config{Servers: []string{server.Addr()}, Root: "/l"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	for i, moment := range []string{late, early} {
		for j, ms := range []string{"9223372036854775807", "-9223372036854775808", "253402300800000"} {
			name := fmt.Sprintf("j%d%d", i, j)
			end := fmt.Sprintf(`{"id":"e","at":%s,"first":%s,"end":"done","ended":%s,"claimed":%s}`, moment, moment, ms, ms)
			run := fmt.Sprintf(`{"id":"r","at":%s,"cancel":%s,"claimed":%s}`, moment, moment, ms)
			require.NoError(t, server.Create("/l/ticks/"+name, fmt.Appendf(nil, `{"format":2,"job":%q,"begins":%s,"last":%s,"waiting":[%s],"runs":[%s],"paused":{"until":%s,"at":%s,"for":%s},`+
				`"left_out":[{"after":%s,"until":%s}],"defs":[{"print":"1-a","first":0,"seen":%s},{"print":"1-b","first":0,"seen":%s}]}`+"\n%s",
				name, moment, moment, moment, run, moment, ms, ms, moment, moment, ms, ms, end)))
			require.NoError(t, server.Create("/l/emergency/frozen/"+name, fmt.Appendf(nil, `{"format":1,"id":"f","scope":"s","until":%s,"waited":%s}`, moment, ms)))
		}
	}

	states, left, err := c.TickLedger("").States(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	frozen, left, err := c.Frozen(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)

	require.Len(t, states, 6)
	require.Len(t, states[0].History, 1)
	require.Len(t, frozen, 6)
	for _, s := range states {
		_, err := json.Marshal(s)
		require.NoError(t, err, s.Job)
	}
	for _, s := range states[:3] { // they are far ahead
		_, err := c.TickLedger("").Rewind(t.Context(), s.Job, ticks.Rewind{})
		require.NoError(t, err, s.Job)
	}
	for _, f := range frozen {
		_, err := json.Marshal(f)
		require.NoError(t, err)
	}
}
