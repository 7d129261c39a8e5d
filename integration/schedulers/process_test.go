package schedulers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// processorOf returns the same of another process; 0: there is none.
func processorOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0
	}
	user, _ := strconv.ParseInt(fields[utime], 10, 64)
	system, _ := strconv.ParseInt(fields[stime], 10, 64)
	const tick = 10 * time.Millisecond // on every machine that Go runs on
	return time.Duration(user+system) * tick
}

// resident returns the memory that this process has from the kernel, in bytes.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}
