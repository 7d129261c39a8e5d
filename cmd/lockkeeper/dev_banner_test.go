package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestBannerSaysWhatIsThereAndWhatToTry(t *testing.T) {
	t.Setenv("LOCKKEEPER_ROOT", "")
	local := recipes.Config{Servers: []string{"127.0.0.1:2181"}, Root: "/lockkeeper"}
	tests := map[string]struct {
		banner banner
		want   []string
		not    []string
	}{
		"the usual": {
			banner{flags: &devFlags{client: local}, embedded: true},
			[]string{
				"An embedded ZooKeeper listens at 127.0.0.1:2181.\n", "in memory", "    export LOCKKEEPER_ZK=127.0.0.1:2181\n",
				"    lockkeeper exec --scope shop/orders --priority 99 -- sleep 3\n",
			},
			[]string{"taken", "Everybody"},
		},
		"taken": {
			banner{flags: &devFlags{client: local}, embedded: true, taken: true},
			[]string{"  127.0.0.1:2181 is taken, "},
			nil,
		},
		"kept": {
			banner{flags: &devFlags{client: local, dataDir: "state"}, embedded: true},
			[]string{"  What it has is kept in state.\n"},
			[]string{"in memory"},
		},
		"for everybody": {
			banner{flags: &devFlags{client: recipes.Config{Servers: []string{"[::]:2181"}, Root: "/lockkeeper"}}, embedded: true},
			[]string{"Everybody who can reach that address can read and change everything in it.\n"},
			nil,
		},
		"server only": {
			banner{flags: &devFlags{client: local, noJobs: yes{is: true}}, embedded: true},
			[]string{"    lockkeeper exec --scope cluster/orders --priority 0 -- sleep 3\n"},
			[]string{"shop"},
		},
		"for a time": {
			banner{flags: &devFlags{client: local, length: duration{d: 25 * time.Second, given: true}}, embedded: true},
			[]string{"  It ends after 25s, or with Ctrl-C. A second Ctrl-C ends it at once.\n"},
			nil,
		},
		"elsewhere": {
			banner{flags: &devFlags{client: recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}, Chroot: "/a", Root: "/lockkeeper-dev"}}},
			[]string{"at\n  zk1:2181,zk2:2181/a, under /lockkeeper-dev.\n", "    export LOCKKEEPER_ZK=zk1:2181,zk2:2181/a LOCKKEEPER_ROOT=/lockkeeper-dev\n"},
			[]string{"embedded"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			test.banner.program = "lockkeeper"

			test.banner.print(&out, false)

			for _, want := range append(test.want, "FOR DEVELOPMENT ONLY.", "Ctrl-C") {
				require.Contains(t, out.String(), want)
			}
			for _, not := range append(test.not, "\x1b") {
				require.NotContains(t, out.String(), not)
			}
			for line := range strings.Lines(out.String()) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
			}
		})
	}
}

func TestProgramIsStartedAgainAsItWasStarted(t *testing.T) {
	require.Equal(t, "lockkeeper", invocation("lockkeeper"))
	require.Equal(t, "bin/lockkeeper", invocation("bin/lockkeeper"))
	require.Equal(t, "go run ./cmd/lockkeeper", invocation("/tmp/go-build2154/b001/exe/lockkeeper"))
}

func TestColoursAreForTerminalsOnlyAndHonourNoColor(t *testing.T) {
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}

	require.True(t, inColour(device, env()))
	require.False(t, inColour(device, env("NO_COLOR", "1")))
	require.False(t, inColour(device, env("TERM", "dumb")))
	require.False(t, inColour(&bytes.Buffer{}, env()))
}
