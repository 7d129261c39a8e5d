package emergency

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// What is written in a turn is written under its node, wherever the root is; and not at all without it.
func TestAnErrandsNoteIsWrittenInItsTurnAlone(t *testing.T) {
	t.Parallel()
	for name, chroot := range map[string]string{"root": "", "chroot": "/tenants/a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.RunT(t)
			c, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, Chroot: chroot})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
			e, err := newErrand(c.Client, "INC-1")
			require.NoError(t, err)
			turn, err := e.take(t.Context())
			require.NoError(t, err)

			require.NoError(t, turn.write(t.Context(), []byte("half done")))
			note, err := e.read(t.Context())
			require.NoError(t, err)
			require.Equal(t, "half done", string(note))

			require.NoError(t, turn.release(t.Context()))
			require.ErrorAs(t, turn.write(t.Context(), []byte("late")), new(*classic.GoneError))
			require.ErrorAs(t, turn.forget(t.Context()), new(*classic.GoneError))
			note, err = e.read(t.Context())
			require.NoError(t, err)
			require.Equal(t, "half done", string(note))
		})
	}
}
