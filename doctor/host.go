package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A host is what was seen of this machine.
type host struct {
	stateDir    error  // why a daemon could not write there
	files       uint64 // how many files a process may have open; 0: not known
	timeUnknown bool   // whether the clock is synchronised is not known
	timeFree    bool   // the kernel says that the clock is not synchronised
}

func examineHost(stateDir string) host {
	h := host{files: openFiles()}
	free, known := unsynchronised()
	h.timeFree, h.timeUnknown = free, !known
	if stateDir != "" {
		h.stateDir = writable(stateDir)
	}
	return h
}

// writable says why nothing can be written into a directory.
func writable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist")
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is no directory")
	}
	return accessible(dir)
}

func checkStateDir(f *findings, x *facts, o Options) {
	dir := o.stateDir()
	switch {
	case o.Config == nil:
	case dir == "":
		f.skip("", "the file has no state_dir: daemons measure nothing for lockkeeper jobs advise", "")
	case x.host.stateDir != nil:
		f.problem(dir, fmt.Sprintf("this user cannot write there: %v", x.host.stateDir),
			"create the directory, and give it to the user that runs the daemon; or run the doctor as that one")
	default:
		f.ok(dir, "writable")
	}
}

// enoughFiles is what a daemon with some running commands needs: one for
// ZooKeeper, three for each command, a few for itself.
const enoughFiles = 256

func checkFiles(f *findings, x *facts, o Options) {
	need := uint64(enoughFiles)
	if o.Config != nil {
		need += 8 * uint64(len(o.Config.Jobs))
	}
	switch n := x.host.files; {
	case n == 0:
		f.skip("", "how many files a process may have open is not known here", "")
	case n < need:
		f.warn("", fmt.Sprintf("a process may have %d files open; %d would be safe for what the file runs", n, need),
			"raise the limit of the daemon: ulimit -n, or LimitNOFILE= in its unit")
	default:
		f.ok("", fmt.Sprintf("a process may have %d files open", n))
	}
}

func checkTimeSync(f *findings, x *facts, _ Options) {
	switch {
	case x.host.timeUnknown:
		f.skip("", "whether the clock of this machine is kept right cannot be seen here", "")
	case x.host.timeFree:
		f.warn("", "the kernel says that the clock of this machine is not synchronised",
			"run chrony, systemd-timesyncd or ntpd, here or on the machine below: if it falls behind, "+
				"ticks that no other daemon runs are late; locks do not depend on it")
	default:
		f.ok("", "the clock of this machine is kept right")
	}
}
