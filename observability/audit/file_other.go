//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package audit

import "os"

// noFollow is 0 here: open finds links only by its Lstat of the path.
const noFollow = 0

// lockFile cannot keep others away on this system: give each process a file of
// its own.
func lockFile(*os.File) error { return nil }
