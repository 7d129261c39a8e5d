// Package wallclock sets the wall clock of one process; its other clocks, and all
// those of other processes, stay as they are. On Linux with amd64.
package wallclock
