package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// attributes: the server dies with its parent however that ends, and does not hear the terminal's interrupt, so
// that the parent can still use it while it winds down.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func stopped(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// "pid (name) state …"; the name may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) == 0 || string(fields[0]) != "T" {
		return errors.New("the process has not stopped yet")
	}
	return nil
}
