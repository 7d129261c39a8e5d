package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), into), name)
}

func TestArchivesAndPackagesHaveTheProgramOfOneCommand(t *testing.T) {
	var release struct {
		Builds []struct {
			Main                string
			Env, Flags, LDFlags []string
		}
	}
	readYAML(t, ".goreleaser.yaml", &release)
	script := regexp.MustCompile(`\n(CGO_ENABLED=0 GOFLAGS=\S+) go build (.*?) -ldflags "(.*?)" -o "\$file" (\S+)\n`).
		FindStringSubmatch(read(t, "scripts/build.sh"))
	require.NotNil(t, script, "scripts/build.sh has no command that is understood")

	require.Len(t, release.Builds, 1)
	b := release.Builds[0]
	require.Equal(t, strings.Fields(script[1]), b.Env)
	require.Equal(t, strings.Fields(script[2]), b.Flags)
	require.Equal(t, []string{strings.ReplaceAll(script[3], "$version", "{{ .Version }}")}, b.LDFlags)
	require.Equal(t, script[4], b.Main)
}

// A step that is not in the Makefile cannot be tried at home.
func TestWorkflowsCallTheMakefileAlone(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yaml"))
	require.NoError(t, err)
	require.Len(t, names, 3)
	targets := regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllString(read(t, "Makefile"), -1)
	for _, name := range names {
		name, err = filepath.Rel(root, name)
		require.NoError(t, err)
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Timeout     int `yaml:"timeout-minutes"`
				Steps       []struct{ Run, Uses string }
			}
		}
		readYAML(t, name, &workflow)

		require.Equal(t, map[string]string{"contents": "read"}, workflow.Permissions, name)
		for _, job := range workflow.Jobs {
			require.Positive(t, job.Timeout, name)
			runs := 0
			for _, step := range job.Steps {
				if step.Uses != "" {
					require.Regexp(t, `^actions/(checkout|setup-go|cache)@(v\d+|[0-9a-f]{40})$`, step.Uses, name)
					continue
				}
				runs++
				require.Regexp(t, `^make [a-z-]+( [A-Z]+="?\$?\{?[\w#.]+\}?"?)*$`, step.Run, name)
				require.Contains(t, targets, strings.Fields(step.Run)[1]+":", name)
			}
			require.Positive(t, runs, name)
		}
	}
}

func TestNotesOfAReleaseAreItsSectionOfTheChangelog(t *testing.T) {
	require.Contains(t, read(t, "CHANGELOG.md"), "0.1.0")
	for version, want := range map[string]bool{"0.1.0": true, "0.1": false, "9.9.9": false} {
		out, err := exec.Command("bash", filepath.Join(root, "scripts/notes.sh"), version).Output()
		require.Equal(t, want, err == nil, version)
		require.Equal(t, want, strings.Contains(string(out), "- Locks with priorities"), version)
	}
}

func TestReleaseIsRefusedWithOneMessage(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "scripts/release.sh"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "scripts"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scripts/release.sh"), script, 0o644))
	refused := func(why string, args ...string) {
		t.Helper()
		cmd := exec.Command("bash", append([]string{filepath.Join(dir, "scripts/release.sh")}, args...)...)
		cmd.Env = append(os.Environ(), "DIRTY=", "GORELEASER=false", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, "release: "+why+"\n", string(out))
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}

	refused(`VERSION is ""; write it like make release VERSION=0.1.0`, "build", "")
	refused(`VERSION is "v0.1.0"; write it like make release VERSION=0.1.0`, "build", "v0.1.0")
	refused("this is no git repository, which the date of a release comes from", "build", "0.1.0")
	git("init", "--quiet")
	refused("there are changes that are not in a commit; commit or stash them, or build with DIRTY=1", "build", "0.1.0")
	git("add", ".")
	git("commit", "--quiet", "--message", "all")
	git("tag", "adapters/gocron/v0.1.0")
	refused("the commit has no tag v0.1.0", "publish", "0.1.0")
}
