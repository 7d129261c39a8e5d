//go:build !linux

package process

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func stopped(int) error { return nil }
