package bugs

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryBugCanStillBePlanted(t *testing.T) {
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			require.NotEmpty(t, b.What)
			_, err := Lay(t.TempDir(), b)
			require.NoError(t, err)
			same, ok := Named(b.Name)
			require.True(t, ok)
			require.Equal(t, b, same)
		})
	}
}

func TestProductWithAllBugsCompiles(t *testing.T) {
	overlay, err := Lay(t.TempDir(), All()...)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./recipes", "./lockguard")
	cmd.Dir = Root()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestBugThatDoesNotApplyIsRefused(t *testing.T) {
	_, err := Lay(t.TempDir(), Bug{Name: "gone", Patches: []Patch{{"recipes", "what is in no file of the product", ""}}})
	require.ErrorContains(t, err, "0 times")
	_, err = Lay(t.TempDir(), Bug{Name: "vague", Patches: []Patch{{"recipes", "return", ""}}})
	require.ErrorContains(t, err, "bug vague")
	_, err = Lay(t.TempDir(), Bug{Name: "lost", Patches: []Patch{{"nowhere", "package", ""}}})
	require.ErrorContains(t, err, "0 times")
}
