package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A banner is what dev says before anything else.
type banner struct {
	flags     *devFlags
	zookeeper *zookeeperFlags
	start     startAgain
	embedded  bool // the server is ours
	taken     bool // and not where it usually is
	ready     bool // it has been printed

	console     string // where a browser finds the console; "" without one
	credentials string // the file with those of our server
	open        bool   // every client may change what our server has
	closed      bool   // it belongs to the credentials alone
}

func (b banner) print(out io.Writer, colour bool) {
	text := "\n  " + b.title() + "\n\n"
	if b.console != "" {
		text += "  Who holds, who waits and why, in a browser: " + b.console + "\n\n"
	}
	if commands := b.commands(); len(commands) > 0 {
		text += "  To try from another terminal:\n\n"
		for _, command := range commands {
			text += "    " + command + "\n"
		}
		text += "\n"
	}
	if b.embedded && !b.closed && !b.flags.unsafe.is {
		text += "  In Go:\n\n    " + strings.Join(b.inGo(), "\n    ") + "\n\n"
	}
	end := "Ctrl-C ends it."
	if length := b.flags.length.limit(); length != nil {
		end = fmt.Sprintf("It ends after %s, or with Ctrl-C.", *length)
	}
	text += "  " + end + " A second Ctrl-C ends it at once.\n\n"
	if colour {
		text = strings.ReplaceAll(text, developmentOnly, "\x1b[1;33m"+developmentOnly+"\x1b[0m")
	}
	_, _ = io.WriteString(out, text)
}

// printLeft says what remains in a ZooKeeper that is not ours.
func (b banner) printLeft(out io.Writer) {
	_, _ = fmt.Fprintf(out, "  What the jobs left in ZooKeeper is under %s. To delete it:\n\n    %s\n\n",
		b.flags.client.Root, "zkCli.sh -server "+quote(b.connect())+" deleteall "+quote(b.flags.client.Root))
}

const developmentOnly = "FOR DEVELOPMENT ONLY."

func (b banner) title() string {
	d := b.flags
	if !b.embedded {
		text := fmt.Sprintf("%s The jobs of the example, on the ZooKeeper at\n  %s, under %s.",
			developmentOnly, b.connect(), d.client.Root)
		if d.unsafe.is {
			text += "\n  " + withoutLocks
		}
		return text
	}
	address := d.client.Servers[0]
	lines := []string{developmentOnly + " An embedded ZooKeeper listens at " + address + "."}
	if b.taken {
		lines = append(lines,
			fmt.Sprintf("%s is taken, perhaps by another ZooKeeper, so this is a free port.", defaultListen))
	}
	if d.unsafe.is {
		lines = append(lines, withoutLocks)
	}
	if host, _, _ := net.SplitHostPort(address); net.ParseIP(host).IsLoopback() {
		lines = append(lines, "It has no replicas, and every user of this machine may connect.")
	} else {
		lines = append(lines, "It has no replicas, and every client that reaches that address",
			"may connect, can read its password, and change everything in it.")
	}
	if d.dataDir == "" {
		lines = append(lines, "What it has is in memory, and gone at the end; --data-dir DIR keeps it.")
	} else {
		lines = append(lines, "What it has is kept in "+d.dataDir+".")
	}
	if b.open {
		lines = append(lines, "That is from a run without credentials, and open to all clients: overrides,",
			"approvals and broken locks are refused. Name a new --data-dir to try them.")
	}
	if b.closed {
		lines = append(lines, "That is from a run of an older version, and takes its credentials, also for",
			"locks. Name a new --data-dir to do without.")
	}
	return strings.Join(lines, "\n  ")
}

const withoutLocks = "The jobs run WITHOUT LOCKS (--unsafe), to show what locks are for."

// commands are what to try: nothing where no lock is taken.
func (b banner) commands() []string {
	if b.flags.unsafe.is {
		return nil
	}
	scope, pattern, level := "shop/orders", "shop/orders", 99 // above all jobs of the example
	if b.flags.noJobs.is {
		scope, pattern, level = "cluster/orders", "'cluster/*'", 0
	}
	commands, program, tls := b.environment(), b.start.program, ""
	if b.start.dir != "" {
		commands = append(commands, "cd "+quote(b.start.dir))
	}
	if !b.embedded && b.zookeeper.tls.is {
		tls = " --zk-tls"
	}
	commands = append(commands,
		program+" locks ls"+tls,
		program+" locks why "+scope+tls,
		fmt.Sprintf("%s exec --scope %s --priority %d%s -- sleep 3", program, scope, level, tls))
	if b.open || b.flags.client.Auth == nil && !b.flags.client.X509 {
		return commands // without credentials, commands have no identity
	}
	commands = append(commands, program+" override apply stop --kind freeze -s "+pattern+" --for 1m -r test"+tls)
	if !b.flags.noJobs.is {
		commands = append(commands, program+" locks preempt "+scope+" -r test"+tls)
	}
	return append(commands,
		program+" override ls"+tls,
		program+" override clear stop -r test"+tls,
		program+" audit"+tls)
}

// inGo connects a Go program to our server.
func (b banner) inGo() []string {
	server := strconv.Quote(b.flags.client.Servers[0])
	if root := b.flags.client.Root; root != "/lockkeeper" {
		return []string{
			"inRoot := func(c *lockkeeper.Config) { c.Root = " + strconv.Quote(root) + " }",
			"client, err := lockkeeper.Connect(" + server + ", inRoot)",
		}
	}
	return []string{"client, err := lockkeeper.Connect(" + server + ")"}
}

const digestVariable = "LOCKKEEPER_ZK_DIGEST_FILE"

// environment makes a shell look at our ZooKeeper, wherever it looked before.
func (b banner) environment() []string {
	export := "export LOCKKEEPER_ZK=" + quote(b.connect()) + " LOCKKEEPER_ROOT=" + quote(b.flags.client.Root)
	files := []struct{ name, value string }{
		{digestVariable, b.zookeeper.digestFile},
		{"LOCKKEEPER_ZK_CA_FILE", b.zookeeper.caFile},
		{"LOCKKEEPER_ZK_CERT_FILE", b.zookeeper.certFile},
		{"LOCKKEEPER_ZK_KEY_FILE", b.zookeeper.keyFile},
	}
	lines := []string{export}
	unset := []string{"unset"}
	for _, file := range files {
		value := cmp.Or(file.value, os.Getenv(file.name))
		switch {
		case b.embedded && b.credentials != "" && file.name == digestVariable:
			lines = append(lines, "export "+file.name+"="+quote(b.credentials))
		case value == "":
		case b.embedded:
			unset = append(unset, file.name)
		default:
			if path, err := filepath.Abs(value); err == nil {
				value = path
			}
			lines = append(lines, "export "+file.name+"="+quote(value))
		}
	}
	for _, name := range []string{
		"LOCKKEEPER_ZK_X509", "LOCKKEEPER_ZK_OPERATORS", "LOCKKEEPER_ZK_CONTENDERS", "LOCKKEEPER_ZK_READERS",
	} {
		if b.embedded && os.Getenv(name) != "" {
			unset = append(unset, name)
		}
	}
	if len(unset) > 1 {
		lines = append(lines, strings.Join(unset, " "))
	}
	return lines
}

// connect returns where ZooKeeper is, as --zk has it.
func (b banner) connect() string {
	return strings.Join(b.flags.client.Servers, ",") + b.flags.client.Chroot
}

// inColour reports whether out is a terminal that shows colours, and NO_COLOR is
// not set.
func inColour(out io.Writer, env func(string) string) bool {
	file, ok := out.(*os.File)
	if !ok || env("NO_COLOR") != "" || env("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
