package recipes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The notice comes between the last grant and the return of Acquire: too late
// to end a wait, too early for the holder.
func TestMultiThatIsAskedAtTheLastMomentIsNotHeld(t *testing.T) {
	asked := &GivenUpError{Scope: "a"}
	r := &round{m: &Multi{}, lost: &StartedAnew{Scope: "a", Cause: asked}}
	_, err := r.run(t.Context())
	require.Same(t, asked, err)
	require.False(t, r.complete)

	// and later it is the holder's business
	r = &round{m: &Multi{}}
	_, err = r.run(t.Context())
	require.NoError(t, err)
	require.Same(t, asked, r.giveUp("a", asked))
	require.Nil(t, r.gone())
}
