//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package timings

import "os"

// lockFile cannot keep others away on this system: give each process a directory
// of its own.
func lockFile(name string) (*os.File, error) { return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o640) }
