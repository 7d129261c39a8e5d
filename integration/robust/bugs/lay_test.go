package bugs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachMarkerIsOfABug(t *testing.T) {
	files, err := markedFiles()
	require.NoError(t, err)
	for path, text := range files {
		for _, part := range marker.FindAllStringSubmatch(text, -1) {
			_, ok := Named(part[2])
			require.True(t, ok, "%s has a marker of bug %q, which is none", path, part[2])
		}
	}
}

// Types are checked by vet, which is faster than a compiler; with the race detector, as the suite is: then all that it
// needs is compiled already.
func TestEachBugHasItsPlacesAndCompiles(t *testing.T) {
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, b.What)
			changed, err := plant(b)
			require.NoError(t, err)
			overlay, err := Lay(t.TempDir(), b)
			require.NoError(t, err)
			arguments := []string{"vet", "-race", "-assign", "-overlay", overlay}
			for path := range changed {
				arguments = append(arguments, filepath.Dir(path))
			}
			out, err := exec.CommandContext(t.Context(), "go", arguments...).CombinedOutput()
			require.NoError(t, err, "%s", out)

			b.Places++
			_, err = Lay(t.TempDir(), b)
			require.ErrorContains(t, err, "markers of bug "+b.Name)
		})
	}
}

func TestLaidFilesReplaceThoseOfTheProduct(t *testing.T) {
	b, ok := Named("dead-waiter-goes-on")
	require.True(t, ok)
	changed, err := plant(b)
	require.NoError(t, err)
	overlay, err := Lay(t.TempDir(), b)
	require.NoError(t, err)
	var laid struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &laid))
	require.Len(t, laid.Replace, len(changed))
	for path, at := range laid.Replace {
		text, err := os.ReadFile(at)
		require.NoError(t, err)
		require.Equal(t, changed[path], string(text))
	}
}
