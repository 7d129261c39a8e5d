package zkserver

import (
	"fmt"
	"os"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// diskSize bounds the file system of its own that a server gets. It lies in memory, of which only what is
// written counts.
const diskSize = 1 << 30

// WithFullableDisk lets FillDisk take the space away that the server writes its data to. Where the process
// may mount, the data gets a file system of its own; elsewhere (in most containers) a limit on the size of
// files, set while the server runs, does the same to it: every write fails. Disk tells which. Linux only.
func WithFullableDisk() Option {
	return func(o *options) { o.fullable = true }
}

// disk is how a server's disk is filled.
type disk struct {
	mounted string // the file system of its own; "" for a limit on files
	why     error  // there is none
}

// Disk tells in words how FillDisk does it, and when not as it should, why.
func (s *Server) Disk() string {
	switch {
	case s.disk == nil:
		return "cannot be filled: started without WithFullableDisk"
	case s.disk.mounted != "":
		return "a file system of its own that shrinks to what is used (ENOSPC)"
	default:
		return fmt.Sprintf("RLIMIT_FSIZE of the process (EFBIG), since there is no file system of its own: %v", s.disk.why)
	}
}

// FillDisk makes what the server writes to its data fail, until FreeDisk. ZooKeeper stops serving at the next
// write. It is an error without WithFullableDisk.
func (s *Server) FillDisk() error {
	switch {
	case s.disk == nil:
		return s.errorf("fill the disk: it was started without WithFullableDisk")
	case s.disk.mounted != "":
		if err := shrink(s.disk.mounted); err != nil {
			return s.errorf("fill the disk: %w", err)
		}
		return nil
	default:
		return s.with("fill the disk", func(p *process.Process) error { return limitFiles(p.PID(), true) })
	}
}

// FreeDisk gives the space back. End the server before, and start it again afterwards: a member of an
// ensemble goes on in memory with a full disk, and would write on behind the gap in its log.
func (s *Server) FreeDisk() error {
	switch {
	case s.disk == nil:
		return nil
	case s.disk.mounted != "":
		if err := grow(s.disk.mounted); err != nil {
			return s.errorf("free the disk: %w", err)
		}
		return nil
	default:
		return s.with("free the disk", func(p *process.Process) error {
			if !p.Alive() {
				return nil
			}
			return limitFiles(p.PID(), false)
		})
	}
}

// newDisk mounts a file system for the data, or notes why it cannot.
func newDisk(dir string, unmountable error) (*disk, error) {
	if err := os.MkdirAll(dataDir(dir), 0o700); err != nil {
		return nil, err
	}
	if unmountable != nil {
		return &disk{why: unmountable}, nil //nolint:nilerr // there is another way
	}
	if err := mountData(dataDir(dir)); err != nil {
		return &disk{why: err}, nil //nolint:nilerr // likewise
	}
	return &disk{mounted: dataDir(dir)}, nil
}

func (d *disk) remove() error {
	if d == nil || d.mounted == "" {
		return nil
	}
	return unmountData(d.mounted)
}
