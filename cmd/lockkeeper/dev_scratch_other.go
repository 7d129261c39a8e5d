//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import (
	"errors"
	"os"
)

// lockScratch does nothing on this system: what a killed dev has left stays.
func lockScratch(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

func isOwnDir(string) bool { return false }
