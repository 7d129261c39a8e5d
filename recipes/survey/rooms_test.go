package survey

import (
	"context"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestSurveyKnowsWhatBelongsIntoEachRoom(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	c, err := lock.NewClient(lock.Config{
		Servers: []string{server.Addr()}, Auth: &lock.Digest{User: "ana", Password: "secret"},
		Operators: []string{lock.DigestID("ana", "secret")}, Contenders: []string{"world:anyone"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	_, err = c.Init(t.Context())
	require.NoError(t, err)
	rooms := []string{"overrides"} // there is one as soon as there are overrides
	for _, node := range server.Tree(c.Root()) {
		if path.Dir(node.Path) == c.Root() {
			rooms = append(rooms, path.Base(node.Path))
		}
	}
	require.ElementsMatch(t, rooms, slices.Collect(maps.Keys(kinds)))
}
