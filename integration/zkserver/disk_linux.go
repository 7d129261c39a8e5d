package zkserver

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mountData(path string) error {
	if err := unix.Mount("lockkeeper", path, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", diskSize)); err != nil {
		return os.NewSyscallError("mount", err)
	}
	return nil
}

// unmountData lets go of the file system although somebody may still look at it.
func unmountData(path string) error {
	return os.NewSyscallError("umount", unix.Unmount(path, unix.MNT_DETACH))
}

// shrink leaves no page free. The server may write between the look and the deed: then the kernel refuses.
func shrink(path string) error {
	for attempt := 0; ; attempt++ {
		var stat unix.Statfs_t
		if err := unix.Statfs(path, &stat); err != nil {
			return os.NewSyscallError("statfs", err)
		}
		used := (stat.Blocks - stat.Bfree) * uint64(stat.Bsize)
		err := resize(path, used)
		if !errors.Is(err, unix.EINVAL) || attempt == 1000 {
			return err
		}
	}
}

func grow(path string) error { return resize(path, diskSize) }

func resize(path string, size uint64) error {
	return os.NewSyscallError("remount",
		unix.Mount("lockkeeper", path, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size)))
}

// limitFiles lets the process write to no file, or to all. Java ignores the signal that comes with it.
func limitFiles(pid int, full bool) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = limit.Max
	if full {
		limit.Cur = 0
	}
	return os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil))
}
