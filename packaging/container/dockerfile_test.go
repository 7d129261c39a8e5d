package container

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/stretchr/testify/require"
)

func TestDockerfileThatCannotBeBuiltWithoutDockerIsRefused(t *testing.T) {
	const first = "FROM golang AS build\nRUN go build -o /lockkeeper .\n"
	for last, want := range map[string]string{
		"FROM debian\n":                                      "it has not two stages, the last one from scratch",
		"FROM scratch\nCMD lockkeeper run\n":                 "line 4: the image has no shell; write the command as a list",
		"FROM scratch\nENTRYPOINT lockkeeper\n":              "line 4: the image has no shell",
		"FROM scratch\nHEALTHCHECK CMD lockkeeper\n":         "line 4: the image has no shell",
		"FROM scratch\nRUN [\"lockkeeper\"]\n":               "line 4: RUN is not known here",
		"FROM scratch\nCOPY --from=build /lockkeeper /b\n":   "line 4: COPY without --chmod depends on the machine that builds",
		"FROM scratch\nCOPY --chmod=0755 lockkeeper /b\n":    "line 4: COPY is known of one file of stage build alone, to a path",
		"FROM scratch\nCOPY --from=build --chmod=0755 . /\n": "line 4: COPY is known of one file",
	} {
		name := filepath.Join(t.TempDir(), "Dockerfile")
		require.NoError(t, os.WriteFile(name, []byte(first+last), 0o600))
		_, err := Read(name, nil)
		require.ErrorContains(t, err, want, last)
	}
}

func TestBuildOfDockerHasWhatTheProgramIsBuiltFrom(t *testing.T) {
	ignored, err := os.Open(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	defer ignored.Close()
	patterns, err := ignorefile.ReadAll(ignored)
	require.NoError(t, err)
	matcher, err := patternmatcher.New(patterns)
	require.NoError(t, err)
	left := func(name string) bool {
		out, err := matcher.MatchesOrParentMatches(name)
		require.NoError(t, err)
		return out
	}
	for _, name := range sources(t) {
		require.False(t, left(name), "%s is not in the build of the image", name)
	}
	for _, name := range []string{".git/HEAD", "docs/README.md", "integration/testrun/main.go", "packaging/container/doc.go", "config/config_test.go", "dist/a"} {
		require.True(t, left(name), "a change of %s builds the image anew", name)
	}
}

// sources are the files of this module that the program is made of.
func sources(t *testing.T) (all []string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,GoFiles,EmbedFiles,Module", "./cmd/lockkeeper")
	list.Dir = root
	list.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := list.Output()
	require.NoError(t, err)
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir                 string
			GoFiles, EmbedFiles []string
			Module              *struct{ Main bool }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(top, p.Dir)
		require.NoError(t, err)
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			all = append(all, filepath.Join(dir, name))
		}
	}
	require.NotEmpty(t, all)
	return append(all, "go.mod", "go.sum")
}
