package jobs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal of this process, if it has one. It is
// lent to a command when that asks for it, and not before: in a pipeline
// another process may need it. The nil terminal is none.
type terminal struct {
	fd    int
	own   int // process group of this process
	group int // to which it is lent
	lent  bool
}

// give makes group the foreground group if this process is in the foreground,
// and reports whether it was.
func (t *terminal) give(group int) bool {
	if t == nil {
		return false
	}
	if t.lent {
		return t.setForeground(group) == nil
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	t.fd, t.own = fd, unix.Getpgrp()
	if now, err := t.foreground(); err != nil || now != t.own || t.setForeground(group) != nil {
		_ = unix.Close(fd)
		return false
	}
	t.group, t.lent = group, true
	return true
}

func (t *terminal) given() bool { return t != nil && t.lent }

// takeBack puts this process into the foreground again, unless another process
// has it meanwhile.
func (t *terminal) takeBack() {
	if !t.given() {
		return
	}
	now, err := t.foreground()
	if err == nil && (now == t.group || errors.Is(unix.Kill(-now, 0), unix.ESRCH)) {
		_ = t.setForeground(t.own)
	}
	_ = unix.Close(t.fd)
	t.lent = false
}

func (t *terminal) foreground() (group int, err error) {
	return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
}

// setForeground is refused with SIGTTOU, which would stop this process, when
// the process is in the background.
func (t *terminal) setForeground(group int) error {
	return withoutTTOU(func() error { return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
}
