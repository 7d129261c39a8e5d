//go:build !linux

package pid1

// Run does nothing: containers run Linux.
func Run([]string) (code int, ended bool, err error) { return 0, false, nil }
