package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Subreaper makes this process the parent of orphans among its descendants, so
// that those of a command's group are reaped here and not by an init that may
// not care. Orphans that have left their group become children of this process
// as well, and are not reaped while it lives: it is meant for programs that
// run one command and end, or that are process 1 anyway. Elsewhere than on
// Linux it does nothing.
func Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("process cannot become a subreaper: %w", err)
	}
	return nil
}

// groupAttributes make a command the leader of a group, and kill it when this
// process dies before the guardian knows of the group.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// toldOfStops says that group.stops tells when a command wants the terminal.
const toldOfStops = true

// awaitLeader waits until the command has ended, and does not reap it.
func (g *group) awaitLeader() {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, g.id, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != codeStopped {
			return
		}
		// Seen, so that it is not told again.
		var stop unix.Siginfo
		err = unix.Waitid(unix.P_PID, g.id, &stop, unix.WSTOPPED|unix.WNOHANG, nil)
		if err == nil && stop.Code == codeStopped {
			g.stops <- stopSignal(&stop)
		}
	}
}

const codeStopped = 5 // CLD_STOPPED

// stopSignal is si_status, which unix.Siginfo keeps to itself: it comes after
// three ints, aligned like a pointer, and after a pid and a uid.
func stopSignal(info *unix.Siginfo) syscall.Signal {
	const word = unsafe.Sizeof(uintptr(0))
	const union = (12 + word - 1) / word * word
	return syscall.Signal(*(*int32)(unsafe.Add(unsafe.Pointer(info), union+8)))
}

// awaitMembers waits until all members but the command itself have ended, and
// reports whether there were any. It reads /proc once for each that ends.
func (g *group) awaitMembers() (found bool) {
	for {
		members, err := membersOf(g.id)
		if err != nil {
			g.poll()
			return true
		}
		for _, m := range members {
			if m.ended && m.parent == os.Getpid() {
				_, _ = unix.Wait4(m.pid, nil, unix.WNOHANG, nil)
			}
		}
		i := slices.IndexFunc(members, func(m member) bool { return !m.ended })
		if i < 0 {
			return found
		}
		found = true
		awaitMember(members[i].pid, g.id)
	}
}

// awaitMember waits until a member, which is no child of ours, has ended or
// has left the group.
func awaitMember(pid, group int) {
	const look = 200 * time.Millisecond
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil { // not known to an old kernel, or no descriptor left
		<-time.After(look / 10)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		if is, err := unix.Getpgid(pid); err != nil || is != group {
			return
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(look.Milliseconds()))
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// A member is a process of a group other than its leader.
type member struct {
	pid, parent int
	ended       bool // a zombie; the group does not wait until its parent reaps it
}

func membersOf(group int) ([]member, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var members []member
	seen := false
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == group {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		m, in, ok := parseStat(pid, stat)
		seen = seen || ok
		if ok && in == group {
			members = append(members, m)
		}
	}
	if !seen {
		return nil, os.ErrNotExist // /proc is not that of a Linux kernel
	}
	return members, nil
}

// parseStat reads /proc/pid/stat: pid (name) state ppid pgrp …, where the name
// may contain anything and the 20th field is the number of threads. A leader
// of threads that has ended before them looks like a zombie, but is none.
func parseStat(pid int, stat []byte) (m member, group int, ok bool) {
	_, rest, found := cutLast(stat, []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 18 {
		return member{}, 0, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	threads, err3 := strconv.Atoi(string(fields[17]))
	if err1 != nil || err2 != nil || err3 != nil {
		return member{}, 0, false
	}
	state := fields[0][0]
	return member{
		pid:    pid,
		parent: parent,
		ended:  (state == 'Z' || state == 'X') && threads <= 1,
	}, group, true
}

func cutLast(s, sep []byte) (before, after []byte, found bool) {
	if i := bytes.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, nil, false
}
