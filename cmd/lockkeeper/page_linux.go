package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalColumns returns how wide the terminal is that f is; 0: it is none.
func terminalColumns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
