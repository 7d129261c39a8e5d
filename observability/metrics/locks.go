package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/lockkeeper/lockkeeper/observability/internal/backlog"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A Source says what a guard works for.
type Source string

// The sources.
const (
	Cron     Source = "cron"     // the jobs of a scheduler
	Temporal Source = "temporal" // activities and workflows
	Exec     Source = "exec"     // a command
	API      Source = "api"      // a program's own code
)

// Locks are the instruments of locks. They are safe for concurrent use, and one is
// enough for a process.
type Locks struct {
	meter   metric.Meter
	classes *classes
	since   time.Time // when the instruments were made

	wait, hold, cleanup, preemption metric.Float64Histogram
	preempted, overlaps             metric.Int64Counter

	waits, holds, cleanups, preemptions, preempteds, overlapping *family

	late *backlog.Backlog[told]

	mu      sync.Mutex
	sources []Source // of which there are observers
}

// An Option changes Locks.
type Option func(*options) error

type options struct {
	most             int
	declared, shared []string
	delay            time.Duration
}

// WithMaxClasses sets how many classes have series of their own; all others are
// counted together, as OtherClass. Defaults to DefaultMaxClasses.
func WithMaxClasses(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("metrics: WithMaxClasses: %d is none; write 1 or more, or leave the option out for %d",
				n, DefaultMaxClasses)
		}
		o.most = n
		return nil
	}
}

// WithClasses declares classes: those have series from the start, with 0, as far as a
// series can have that (see Endpoint.Show and Zeros for histograms). Give the classes that
// lockguard.WithClasses has, or those that requirements name.
func WithClasses(declared ...string) Option {
	return func(o *options) error {
		o.declared = append(o.declared, declared...)
		return nil
	}
}

// WithDelay has events counted up to that much later, many at a time, and while no
// caller waits for it: an uncontended lock is then taken and released faster, see
// docs/performance.md. With a delay, call Locks.Flush before the last export. Defaults
// to 0: at once.
func WithDelay(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return fmt.Errorf("metrics: WithDelay: %s is before the event; write 0 or more", d)
		}
		o.delay = d
		return nil
	}
}

// WithShared declares classes that are used in shared mode as well. Others have series
// of that mode from the first such request on.
func WithShared(declared ...string) Option {
	return func(o *options) error {
		o.declared = append(o.declared, declared...)
		o.shared = append(o.shared, declared...)
		return nil
	}
}

// NewLocks makes the instruments of locks. An error says what is wrong with an option,
// or which instrument the meter refuses.
func NewLocks(meter metric.Meter, opts ...Option) (*Locks, error) {
	o := options{most: DefaultMaxClasses}
	for _, option := range opts {
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	m := newMaker(meter)
	l := &Locks{
		meter: meter, classes: newClasses(o.most), since: time.Now(), late: backlog.New(o.delay, told.count),
		wait: m.histogram(waitDuration), hold: m.histogram(holdDuration),
		cleanup: m.histogram(cleanupDuration), preemption: m.histogram(preemptionDuration),
		preempted: m.counter(preemptionCount), overlaps: m.counter(overlapDetected),
		waits: newFamily(lockClass, lockMode, outcome, source), holds: newFamily(lockClass, lockMode, end, source),
		cleanups: newFamily(lockClass, result), preemptions: newFamily(lockClass, result),
		preempteds: newFamily(victimClass, preemptorClass, reason), overlapping: newFamily(lockClass),
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	l.Declare(o.declared...)
	l.DeclareShared(o.shared...)
	return l, nil
}

// Flush counts all that has happened before, see WithDelay.
func (l *Locks) Flush() { l.late.Flush() }

// Declare is WithClasses for classes that come later, as with a new configuration.
func (l *Locks) Declare(declared ...string) {
	for _, class := range l.classes.declare(declared) {
		l.overlaps.Add(context.Background(), 0, l.overlapping.of(values{class}))
		for _, why := range []priority.Reason{priority.Outranked, priority.LeaseExpired} {
			l.preempted.Add(context.Background(), 0, l.preempteds.of(values{class, class, string(why)}))
		}
	}
}

// DeclareShared is WithShared for classes that come later.
func (l *Locks) DeclareShared(declared ...string) {
	l.Declare(declared...)
	for _, class := range declared {
		l.classes.share(class)
	}
}

// Overlap counts a write that a resource has refused because its fencing token was
// smaller than one that it had seen before: two believed that they held one lock.
// Code that checks tokens calls it with the class of the lock. It should never
// happen, and is worth an alert.
func (l *Locks) Overlap(ctx context.Context, class string) {
	l.overlaps.Add(ctx, 1, l.overlapping.of(values{l.classes.of(class)}))
}

// Overlap is Locks.Overlap for a program that only checks tokens.
func Overlap(meter metric.Meter, opts ...Option) (report func(ctx context.Context, class string), err error) {
	l, err := NewLocks(meter, opts...)
	if err != nil {
		return nil, err
	}
	return l.Overlap, nil
}
