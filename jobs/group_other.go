//go:build !linux

package jobs

import "syscall"

// Subreaper makes this process the parent of orphans among its descendants on
// Linux. Here it does nothing.
func Subreaper() error { return nil }

func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// toldOfStops is false: nothing reports that a command wants the terminal.
const toldOfStops = false

// awaitLeader leaves it to reapLeader to wait for the command.
func (g *group) awaitLeader() {}

// awaitMembers cannot tell the members apart.
func (g *group) awaitMembers() (found bool) {
	g.poll()
	return true
}
