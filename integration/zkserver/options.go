package zkserver

import (
	"fmt"
	"time"
)

// An Option changes how a server is run. ZooKeeper itself refuses a wrong value: its log is in the error of the start.
type Option func(*options)

type options struct {
	disk         bool
	faketime     string // path of the library; "" for the true time
	fsync        bool
	fullable     bool
	heapMB       int
	jvmFlags     []string
	maxSession   time.Duration
	minSession   time.Duration
	noFaketime   error // why the clock cannot be stepped, though it is asked for
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
	o := options{heapMB: 256, startTimeout: 3 * time.Minute, tick: 200 * time.Millisecond, voters: 3}
	for _, opt := range opts {
		opt(&o)
	}
	if o.noFaketime != nil {
		return options{}, fmt.Errorf("zkserver: %w", o.noFaketime)
	}
	return o, nil
}

// WithTick sets ZooKeeper's tick, the unit of its clock: sessions last between 2 and 20 ticks and end on a multiple of
// the tick. Defaults to 200ms, so that session timeouts from 400ms to 4s are granted as asked.
func WithTick(d time.Duration) Option {
	return func(o *options) { o.tick = d }
}

// WithMembers sets how many members of an ensemble vote, and how many observers it has beside them. The observers come
// last in Ensemble.Servers. Defaults to three voters and no observer. It does nothing to a standalone server.
func WithMembers(voters, observers int) Option {
	return func(o *options) { o.voters, o.observers = voters, observers }
}

// WithSessionTimeouts sets the shortest and the longest session timeout that the server grants; others are
// moved to the nearer end. Defaults to 2 and 20 ticks.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return func(o *options) { o.minSession, o.maxSession = shortest, longest }
}

// WithFsync puts the data on disk and makes every write wait for it, as a production server does. Without it
// the server runs with forceSync=no: writes survive a kill of the server, not a crash of the machine.
func WithFsync() Option {
	return func(o *options) { o.disk, o.fsync = true, true }
}

// WithHeap sets the Java heap in MiB. Defaults to 256.
func WithHeap(mebibytes int) Option {
	return func(o *options) { o.heapMB = mebibytes }
}

// WithOptimisingCompiler lets the JVM use all its compilers, for benchmarks. Without it the JVM stops at the first: a
// faster start, a slower server.
func WithOptimisingCompiler() Option {
	return func(o *options) { o.optimise = true }
}

// WithSetting adds a line to zoo.cfg, after the others: it wins over them. ZooKeeper reads any system property named
// zookeeper.X as setting X too.
func WithSetting(key, value string) Option {
	return func(o *options) { o.settings = append(o.settings, setting{key, value}) }
}

// WithJVMFlags adds flags to the java command, after the harness's own.
func WithJVMFlags(flags ...string) Option {
	return func(o *options) { o.jvmFlags = append(o.jvmFlags, flags...) }
}

// WithStartTimeout bounds how long a start may take until the server serves. Defaults to 3m, for a busy machine.
func WithStartTimeout(d time.Duration) Option {
	return func(o *options) { o.startTimeout = d }
}
