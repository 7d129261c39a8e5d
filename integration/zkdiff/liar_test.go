package zkdiff

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that is wrong in one respect is found out, and the report contains only what is needed to see it.
func TestLiarIsFoundOutAndItsLieToldInFewSteps(t *testing.T) {
	const notEmpty = -111
	wrong := int32(noNode)
	liar := func(ctx context.Context) (server, error) {
		s, err := embedded(ctx)
		s.lie = func(frame []byte) {
			d := decoder{buf: frame}
			if d.header().code == notEmpty {
				binary.BigEndian.PutUint32(frame[12:], uint32(wrong))
			}
		}
		return s, err
	}
	p, err := launchPair(t.Context(), embedded, liar)
	require.NoError(t, err)
	found := explore(t.Context(), p, newGenerator(1, sessions), 5000, func(int) {})
	require.NoError(t, p.close())
	require.NotNil(t, found, "the lie was not noticed")
	require.Greater(t, len(found.script), 10, "for the shrinking to be worth something")

	short, ok := shrinkDivergence(t, embedded, liar, found)

	require.True(t, ok)
	require.Len(t, short.script, 3, "%s", short)
	require.Equal(t, Delete, short.script[2].Do, "%s", short)
	require.Contains(t, short.difference, "real: reply Delete xid=")
	require.Contains(t, short.difference, "err=-111")
	require.Contains(t, short.difference, "err=-101")
}
