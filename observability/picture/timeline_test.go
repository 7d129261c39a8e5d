package picture_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/picture"
)

var update = flag.Bool("update", false, "write the pictures that are compared with anew, to be looked at")

// golden compares a picture with the file of that name, byte for byte.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the picture has changed; look at it, and write it anew with go test ./observability/picture -update")
}

func TestTimeline(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, contention(), picture.Options{Standalone: true}))
	golden(t, "timeline.svg", b.Bytes())
}

func TestTimelineAsText(t *testing.T) {
	for name, o := range map[string]picture.TextOptions{
		"timeline.80.txt": {}, "timeline.120.txt": {Width: 120}, "timeline.40.ascii.txt": {Width: 40, ASCII: true}, "timeline.80.colour.txt": {Colour: true},
	} {
		var b bytes.Buffer
		require.NoError(t, picture.TimelineText(&b, contention(), o))
		golden(t, name, b.Bytes())
	}
}
