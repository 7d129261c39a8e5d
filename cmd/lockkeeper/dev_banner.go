package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// A banner is what dev says before anything else.
type banner struct {
	flags    *devFlags
	program  string // as it has to be typed
	embedded bool   // the server is ours
	taken    bool   // and not where it usually is
}

func (b banner) print(out io.Writer, colour bool) {
	text := "\n  " + b.title() + "\n\n  To try from another terminal:\n\n"
	for _, command := range b.commands() {
		text += "    " + command + "\n"
	}
	end := "Ctrl-C ends it."
	if length := b.flags.length.limit(); length != nil {
		end = fmt.Sprintf("It ends after %s, or with Ctrl-C.", *length)
	}
	text += "\n  " + end + " A second Ctrl-C ends it at once.\n\n"
	if colour {
		text = strings.ReplaceAll(text, developmentOnly, "\x1b[1;33m"+developmentOnly+"\x1b[0m")
	}
	_, _ = io.WriteString(out, text)
}

const developmentOnly = "FOR DEVELOPMENT ONLY."

func (b banner) title() string {
	d := b.flags
	if !b.embedded {
		return fmt.Sprintf("%s The jobs of the example, on the ZooKeeper at\n  %s, under %s.", developmentOnly, b.connect(), d.client.Root)
	}
	address := d.client.Servers[0]
	lines := []string{developmentOnly + " An embedded ZooKeeper listens at " + address + "."}
	if b.taken {
		lines = append(lines, fmt.Sprintf("%s is taken, perhaps by another ZooKeeper, so this is a free port.", defaultListen))
	}
	lines = append(lines, "It has no replicas and no access control.")
	if d.dataDir == "" {
		lines = append(lines, "What it has is in memory, and gone at the end; --data-dir DIR keeps it.")
	} else {
		lines = append(lines, "What it has is kept in "+d.dataDir+".")
	}
	if host, _, _ := net.SplitHostPort(address); !net.ParseIP(host).IsLoopback() {
		lines = append(lines, "Everybody who can reach that address can read and change everything in it.")
	}
	return strings.Join(lines, "\n  ")
}

// commands are what to try.
func (b banner) commands() []string {
	env := "export LOCKKEEPER_ZK=" + b.connect()
	if root := b.flags.client.Root; root != "/lockkeeper" || os.Getenv("LOCKKEEPER_ROOT") != "" {
		env += " LOCKKEEPER_ROOT=" + root
	}
	scope, level := "shop/orders", 99 // above all jobs of the example
	if b.flags.noJobs.is {
		scope, level = "cluster/orders", 0
	}
	return []string{
		env,
		b.program + " locks ls",
		b.program + " locks show " + scope,
		fmt.Sprintf("%s exec --scope %s --priority %d -- sleep 3", b.program, scope, level),
	}
}

// connect returns where ZooKeeper is, as --zk has it.
func (b banner) connect() string {
	return strings.Join(b.flags.client.Servers, ",") + b.flags.client.Chroot
}

// invocation returns how the program that was started as arg0 is started again.
func invocation(arg0 string) string {
	if strings.Contains(arg0, "go-build") {
		return "go run ./cmd/lockkeeper"
	}
	return arg0
}

// inColour reports whether out is a terminal that shows colours, and nobody has
// asked for none.
func inColour(out io.Writer, env func(string) string) bool {
	file, ok := out.(*os.File)
	if !ok || env("NO_COLOR") != "" || env("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
