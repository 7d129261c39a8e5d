package zkserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Option changes how a server is run. A wrong value is an error of the call that takes the option.
type Option func(*options) error

type options struct {
	disk         bool
	faketime     string // path of the library; "" for the true time
	fsync        bool
	fullable     bool
	heapMB       int
	jvmFlags     []string
	maxSession   time.Duration
	minSession   time.Duration
	observers    int
	optimise     bool
	peerLinks    bool
	settings     []setting
	startTimeout time.Duration
	tick         time.Duration
	unmountable  error // why there is to be no mount, for tests
	voters       int
}

type setting struct{ key, value string }

func newOptions(opts []Option) (options, error) {
	o := options{heapMB: 256, startTimeout: 60 * time.Second, tick: 200 * time.Millisecond, voters: 3}
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return options{}, fmt.Errorf("zkserver: %w", err)
		}
	}
	return o, nil
}

// WithTick sets ZooKeeper's tick, the unit of its clock: sessions last between 2 and 20 ticks and end on a multiple of
// the tick. Defaults to 200ms, so that session timeouts from 400ms to 4s are granted as asked.
func WithTick(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Millisecond || d%time.Millisecond != 0 {
			return fmt.Errorf("tick %s must be a positive number of whole milliseconds", d)
		}
		o.tick = d
		return nil
	}
}

// WithMembers sets how many members of an ensemble vote, and how many observers it has beside them. The observers come
// last in Ensemble.Servers. Defaults to three voters and no observer. It does nothing to a standalone server.
func WithMembers(voters, observers int) Option {
	return func(o *options) error {
		if voters < 2 || observers < 0 {
			return fmt.Errorf("%d voters and %d observers: an ensemble needs at least two voters", voters, observers)
		}
		o.voters, o.observers = voters, observers
		return nil
	}
}

// WithSessionTimeouts sets the shortest and the longest session timeout that the server grants; others are
// moved to the nearer end. Defaults to 2 and 20 ticks.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return func(o *options) error {
		if shortest < time.Millisecond || longest < shortest {
			return fmt.Errorf("session timeouts from %s to %s: both must be positive and in that order", shortest, longest)
		}
		o.minSession, o.maxSession = shortest, longest
		return nil
	}
}

// WithDisk puts the data under os.TempDir even where a memory file system is at hand.
func WithDisk() Option {
	return func(o *options) error {
		o.disk = true
		return nil
	}
}

// WithFsync puts the data on disk and makes every write wait for it, as a production server does. Without it
// the server runs with forceSync=no: writes survive a kill of the server, not a crash of the machine.
func WithFsync() Option {
	return func(o *options) error {
		o.disk, o.fsync = true, true
		return nil
	}
}

// WithHeap sets the Java heap in MiB. Defaults to 256.
func WithHeap(mebibytes int) Option {
	return func(o *options) error {
		if mebibytes < 32 {
			return fmt.Errorf("heap of %d MiB is too small for ZooKeeper: use at least 32", mebibytes)
		}
		o.heapMB = mebibytes
		return nil
	}
}

// WithOptimisingCompiler lets the JVM use all its compilers, for benchmarks. Without it the JVM stops at the first: a
// faster start, a slower server.
func WithOptimisingCompiler() Option {
	return func(o *options) error {
		o.optimise = true
		return nil
	}
}

// WithSetting adds a line to zoo.cfg, after the others: it wins over them. ZooKeeper reads any system property named
// zookeeper.X as setting X too.
func WithSetting(key, value string) Option {
	return func(o *options) error {
		if key == "" || strings.ContainsAny(key+value, "\r\n") || strings.Contains(key, "=") {
			return fmt.Errorf("setting %q=%q: need a key without '=' and no line breaks", key, value)
		}
		if slices.Contains([]string{"clientPort", "clientPortAddress", "dataDir"}, key) {
			return fmt.Errorf("setting %q is chosen by the harness", key)
		}
		o.settings = append(o.settings, setting{key, value})
		return nil
	}
}

// WithJVMFlags adds flags to the java command, after the harness's own.
func WithJVMFlags(flags ...string) Option {
	return func(o *options) error {
		if slices.Contains(flags, "") {
			return errors.New("an empty JVM flag")
		}
		o.jvmFlags = append(o.jvmFlags, flags...)
		return nil
	}
}

// WithStartTimeout bounds how long a start may take until the server serves. Defaults to 60s, for a busy machine.
func WithStartTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("start timeout %s must be positive", d)
		}
		o.startTimeout = d
		return nil
	}
}
