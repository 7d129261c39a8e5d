package jobs

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

const shell = "/bin/sh"

// guardianScript kills the group whose id it reads as soon as the other end of
// its input is closed, which the kernel does when this process dies. It starts
// afresh with the id as an argument, so that ps shows whom it guards.
const guardianScript = `trap '' HUP INT QUIT TERM TSTP TTIN TTOU
read -r group || exit 0
exec "$1" -c 'read -r goodbye && exit 0; kill -s KILL -- "-$1"' "$0" "$group"`

// A guardian is a process that outlives this one just long enough to kill a
// group. It is started before the group and belongs to a session of its own,
// so that what ends this process or the group does not end the guardian. If
// this process dies between the start of a command and protect, the kernel
// kills the command, but not what that has started in those microseconds.
type guardian struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

func newGuardian(shell string) (*guardian, error) {
	cmd := exec.Command(shell, "-c", guardianScript, "lockkeeper-guardian", shell)
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil,
			fmt.Errorf("it needs a guardian, which kills it if this process dies, and that needs the shell %s: %w", shell, err)
	}
	return &guardian{cmd: cmd, input: input}, nil
}

// protect tells the guardian of the group.
func (g *guardian) protect(group int) error {
	if _, err := fmt.Fprintln(g.input, group); err != nil {
		return fmt.Errorf("its guardian, a %s process, has gone: %w", shell, err)
	}
	return nil
}

// dismiss ends the guardian when the group is gone. It is killed before it can
// see the end of its input, in whatever state it is.
func (g *guardian) dismiss() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // closes its input
}
