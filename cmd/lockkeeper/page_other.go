//go:build !linux

package main

import "os"

// terminalColumns is not known here: $COLUMNS counts.
func terminalColumns(*os.File) int { return 0 }
