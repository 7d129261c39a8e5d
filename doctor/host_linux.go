package doctor

import (
	"math"

	"golang.org/x/sys/unix"
)

func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return min(limit.Cur, math.MaxInt32)
}

// unsynchronised asks the kernel whether its clock is synchronised.
func unsynchronised() (free, known bool) {
	var t unix.Timex // without modes nothing is changed
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	const timeError = 5
	return state == timeError || t.Status&unix.STA_UNSYNC != 0, true
}

func accessible(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
