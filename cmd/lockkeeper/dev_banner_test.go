package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestBannerSaysWhatIsThereAndWhatToTry(t *testing.T) {
	local := lock.Config{Servers: []string{"127.0.0.1:2181"}, Root: "/lockkeeper"}
	for _, name := range []string{"DIGEST_FILE", "CA_FILE", "CERT_FILE", "KEY_FILE", "X509", "OPERATORS"} {
		t.Setenv("LOCKKEEPER_ZK_"+name, "")
	}
	secured := local
	secured.Auth = &lock.Digest{User: devUser, Password: "secret"}
	tests := map[string]struct {
		banner banner
		want   []string
		not    []string
	}{
		"the usual": {
			banner{flags: &devFlags{client: local}, embedded: true},
			[]string{
				"An embedded ZooKeeper listens at 127.0.0.1:2181.\n", "in memory", "    export LOCKKEEPER_ZK=127.0.0.1:2181 LOCKKEEPER_ROOT=/lockkeeper\n",
				"    lockkeeper exec --scope shop/orders --priority 99 -- sleep 3\n",
				"  In Go:\n\n    client, err := lockkeeper.Connect(\"127.0.0.1:2181\")\n",
			},
			[]string{"taken", "anyone", "unset", "override", "browser"},
		},
		"secured": {
			banner{flags: &devFlags{client: secured}, embedded: true, credentials: "/tmp/dev/credentials"},
			[]string{
				"    export LOCKKEEPER_ZK_DIGEST_FILE=/tmp/dev/credentials\n",
				"    lockkeeper override apply stop --kind freeze -s shop/orders --for 1m -r test\n",
				"    lockkeeper locks preempt shop/orders -r test\n", "    lockkeeper override ls\n",
				"    lockkeeper override clear stop -r test\n", "    lockkeeper audit\n",
			},
			[]string{"open to all clients"},
		},
		"secured, server only": {
			banner{flags: &devFlags{client: secured, noJobs: yes{is: true}}, embedded: true, credentials: "/tmp/dev/credentials"},
			[]string{"    lockkeeper override apply stop --kind freeze -s 'cluster/*' --for 1m -r test\n"},
			[]string{"preempt"}, // no job runs
		},
		"kept from before there were credentials": {
			banner{flags: &devFlags{client: secured, dataDir: "state"}, embedded: true, credentials: "/srv/state/credentials", open: true},
			[]string{"  That is from a run without credentials, and open to all clients: ", "    export LOCKKEEPER_ZK_DIGEST_FILE=/srv/state/credentials\n"},
			[]string{"override apply", "audit"},
		},
		"taken": {
			banner{flags: &devFlags{client: local}, embedded: true, taken: true},
			[]string{"  127.0.0.1:2181 is taken, "},
			nil,
		},
		"with a console": {
			banner{flags: &devFlags{client: local}, embedded: true, console: "http://127.0.0.1:9480/"},
			[]string{"\n\n  Who holds, who waits and why, in a browser: http://127.0.0.1:9480/\n\n"},
			nil,
		},
		"kept": {
			banner{flags: &devFlags{client: local, dataDir: "state"}, embedded: true},
			[]string{"  What it has is kept in state.\n"},
			[]string{"in memory"},
		},
		"for every client": {
			banner{flags: &devFlags{client: lock.Config{Servers: []string{"[::]:2181"}, Root: "/lockkeeper"}}, embedded: true},
			[]string{"and every client that reaches that address\n  may connect, can read its password, and change everything in it.\n"},
			nil,
		},
		"without locks": {
			banner{flags: &devFlags{client: local, unsafe: yes{is: true}}, embedded: true},
			[]string{"  The jobs run WITHOUT LOCKS (--unsafe), "},
			[]string{"lockkeeper exec", "To try", "export"},
		},
		"server only": {
			banner{flags: &devFlags{client: local, noJobs: yes{is: true}}, embedded: true},
			[]string{"    lockkeeper exec --scope cluster/orders --priority 0 -- sleep 3\n"},
			[]string{"shop"},
		},
		"another root": {
			banner{flags: &devFlags{client: lock.Config{Servers: []string{"127.0.0.1:2181"}, Root: "/other"}}, embedded: true},
			[]string{"    inRoot := func(c *lockkeeper.Config) { c.Root = \"/other\" }\n    client, err := lockkeeper.Connect(\"127.0.0.1:2181\", inRoot)\n"},
			[]string{"recipes"},
		},
		"for a time": {
			banner{flags: &devFlags{client: local, length: duration{d: 25 * time.Second, given: true}}, embedded: true},
			[]string{"  It ends after 25s, or with Ctrl-C. A second Ctrl-C ends it at once.\n"},
			nil,
		},
		"elsewhere": {
			banner{flags: &devFlags{client: lock.Config{Servers: []string{"zk1:2181", "zk2:2181"}, Chroot: "/a", Root: "/lockkeeper-dev"}}},
			[]string{"at\n  zk1:2181,zk2:2181/a, under /lockkeeper-dev.\n", "    export LOCKKEEPER_ZK=zk1:2181,zk2:2181/a LOCKKEEPER_ROOT=/lockkeeper-dev\n"},
			[]string{"embedded"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			test.banner.zookeeper, test.banner.start.program = &zookeeperFlags{}, "lockkeeper"

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

func TestCommandsWorkInAShellThatIsSetUpOtherwise(t *testing.T) {
	t.Setenv("LOCKKEEPER_ZK_DIGEST_FILE", "/etc/digest")
	t.Setenv("LOCKKEEPER_ZK_CA_FILE", "")
	b := banner{
		flags:     &devFlags{client: lock.Config{Servers: []string{"zk:2181"}, Root: "/a b"}},
		zookeeper: &zookeeperFlags{caFile: "/etc/ca", tls: yes{is: true}},
		start:     startAgain{dir: "/it's here", program: "go run ."},
	}

	require.Equal(t, []string{
		"export LOCKKEEPER_ZK=zk:2181 LOCKKEEPER_ROOT='/a b'",
		"export LOCKKEEPER_ZK_DIGEST_FILE=/etc/digest",
		"export LOCKKEEPER_ZK_CA_FILE=/etc/ca",
		`cd '/it'\''s here'`,
		"go run . locks ls --zk-tls",
		"go run . locks why shop/orders --zk-tls",
		"go run . exec --scope shop/orders --priority 99 --zk-tls -- sleep 3",
	}, b.commands())

	b.embedded = true
	t.Setenv("LOCKKEEPER_ZK_OPERATORS", "digest:ana:x")
	require.Equal(t, []string{
		"export LOCKKEEPER_ZK=zk:2181 LOCKKEEPER_ROOT='/a b'",
		"unset LOCKKEEPER_ZK_DIGEST_FILE LOCKKEEPER_ZK_CA_FILE LOCKKEEPER_ZK_OPERATORS",
	}, b.commands()[:2])
}

func TestWhatStaysInZooKeeperIsSaidWithHowToDeleteIt(t *testing.T) {
	var out bytes.Buffer
	b := banner{flags: &devFlags{client: lock.Config{Servers: []string{"zk:2181"}, Chroot: "/a", Root: devRoot}}}

	b.printLeft(&out)

	require.Contains(t, out.String(), "is under /lockkeeper-dev. To delete it:\n\n    zkCli.sh -server zk:2181/a deleteall /lockkeeper-dev\n")
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
