package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// roles are what this test binary can be in another process.
var roles = map[string]func() int{
	"parent":    playParent,
	"subreaper": playSubreaper,
	"terminal":  playTerminal,
	"shell":     playShell,
}

// roleEnvironment makes this binary play a role. The race detector would wait
// for a second at its end.
func roleEnvironment(role, script string) []string {
	return append(os.Environ(),
		"JOBS_TEST_ROLE="+role, "JOBS_TEST_SCRIPT="+script, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
}

func script() *Command {
	return &Command{Argv: []string{"/bin/sh", "-c", os.Getenv("JOBS_TEST_SCRIPT")}, Stdout: os.Stdout, Stderr: os.Stderr}
}

func report(err error) int {
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func playParent() int {
	c := script()
	if user := os.Getenv("JOBS_TEST_USER"); user != "" {
		c.User, c.Dir = user, "/"
	}
	return report(c.Run(context.Background(), Run{}))
}

func playSubreaper() int {
	if err := Subreaper(); err != nil {
		return report(err)
	}
	if err := script().Run(context.Background(), Run{}); err != nil {
		return report(err)
	}
	pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	if err != syscall.ECHILD {
		fmt.Println("child is left:", pid, err)
		return 1
	}
	fmt.Println("no child is left")
	return 0
}

// playShell is the shell of a terminal that runs exec in the background, and
// puts it into the foreground on a signal.
func playShell() int {
	fg := make(chan os.Signal, 1)
	signal.Notify(fg, syscall.SIGUSR1)
	exec := exec.Command(os.Args[0])
	exec.Env = append(os.Environ(), "JOBS_TEST_ROLE=terminal")
	exec.Stdin, exec.Stdout, exec.Stderr = os.Stdin, os.Stdout, os.Stderr
	exec.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := exec.Start(); err != nil {
		return report(err)
	}
	fmt.Println("exec", exec.Process.Pid)
	<-fg
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, exec.Process.Pid); err != nil {
		return report(err)
	}
	if err := exec.Process.Signal(syscall.SIGCONT); err != nil {
		return report(err)
	}
	return report(exec.Wait())
}

// playTerminal runs a command like exec does, in a terminal.
func playTerminal() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCONT, syscall.SIGTSTP)
	c := script()
	c.Stdin, c.Signals = os.Stdin, signals
	err := c.Run(context.Background(), Run{})
	fmt.Print("\nended: ", err, "\n") // the keys were echoed
	var line string
	if _, err := fmt.Scanln(&line); err != nil { // the terminal is ours again
		return report(err)
	}
	fmt.Println("then", line)
	return 0
}
