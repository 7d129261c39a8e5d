package emergency

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
)

// Board is what a Desk needs of a *opstore.OverrideBoard, see FromBoard.
type Board interface {
	// Watch calls see with all that is posted now, and again after each change,
	// until ctx ends. What cannot be read or trusted is reported as an error; what
	// was seen before it goes on to hold. It returns when ctx ends, or when there
	// is no use in going on.
	Watch(ctx context.Context, see func(posted []Active, err error)) error
}

// DeskConfig says what a Desk works with. The zero value knows no overrides but
// those of SetFile, by the machine's clock.
type DeskConfig struct {
	// Board has the overrides of ZooKeeper. nil: there are none.
	Board Board

	// Limits are what the overrides of ZooKeeper are checked against: those that
	// go beyond are left out, and logged. Their Now is when it was posted.
	Limits override.Limits

	// Logger gets a line when an override begins and ends, and when those of
	// ZooKeeper cannot be read. Defaults to silence.
	Logger *slog.Logger

	// Now is the clock by which overrides end: that of the ZooKeeper servers, as
	// lock.Client.Now knows it. Defaults to time.Now.
	Now func() time.Time
}

// A Desk knows which overrides are in force in this process: those of the file
// and those of ZooKeeper, which count where both have one of the same ID. It is
// safe for concurrent use.
//
// While ZooKeeper is silent, or has what cannot be read or trusted, what was
// known stays in force until it ends by itself.
type Desk struct {
	board Board
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[view]
	known   chan struct{} // closed when the board has been seen

	mu       sync.Mutex
	limits   override.Limits
	file     []override.Override
	posted   []Active
	refused  map[string]bool // of them, by their keys: that is logged once
	boardErr error
	isKnown  bool
	wake     *time.Timer // when the first one ends
	closed   bool
}

var _ lockguard.Overrides = (*Desk)(nil)

// NewDesk returns a desk at which nothing is in force. It hears of what is in
// ZooKeeper by Run.
func NewDesk(cfg DeskConfig) (*Desk, error) {
	d := &Desk{board: cfg.Board, log: cfg.Logger, now: cfg.Now, limits: cfg.Limits, known: make(chan struct{})}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	d.current.Store(&view{changed: make(chan struct{})})
	if d.board == nil {
		d.seenLocked()
	}
	return d, nil
}

// InForce returns the overrides that are in force, and a channel that is closed
// when that has changed, as lockguard.Overrides has it.
func (d *Desk) InForce() (override.Set, <-chan struct{}) {
	v := d.look()
	return v.set, v.changed
}

// Paused returns the override that pauses a job, nil if none does, and a channel
// that is closed when that may have changed.
func (d *Desk) Paused(job string, labels map[string]string) (*override.Override, <-chan struct{}) {
	v := d.look()
	return v.set.Paused(job, labels), v.changed
}

// Active returns what is in force, in the order of the IDs, and a channel that
// is closed when that has changed.
func (d *Desk) Active() ([]Active, <-chan struct{}) {
	v := d.look()
	return slices.Clone(v.active), v.changed
}

// Status says how far what is in force can be relied on.
type Status struct {
	// Known: what ZooKeeper has, or that it has nothing, was read at least once.
	Known bool

	// Err is why what ZooKeeper has now is not known; nil when it is.
	Err error
}

// Status returns how far what is in force can be relied on.
func (d *Desk) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Status{Known: d.isKnown, Err: d.boardErr}
}

// SetFile puts the overrides of the file in force, in place of those before.
// They are taken as valid, see override.Override.Validate.
func (d *Desk) SetFile(all []override.Override) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file = slices.Clone(all)
	d.refreshLocked()
}

// SetLimits has the overrides of ZooKeeper checked against other limits from now
// on.
func (d *Desk) SetLimits(limits override.Limits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limits = limits
	d.refreshLocked()
}

// Ready waits until it is known what ZooKeeper has, or that this cannot be read
// or trusted. It returns the cause of ctx when that ends first.
func (d *Desk) Ready(ctx context.Context) error {
	select {
	case <-d.known:
		return nil
	default:
	}
	select {
	case <-d.known:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// again is how long the desk waits before it watches anew a board whose watch
// has ended.
const again = time.Second

// Run keeps the desk up to date with ZooKeeper until ctx ends. Call it once.
func (d *Desk) Run(ctx context.Context) {
	defer d.close()
	for d.board != nil {
		err := d.board.Watch(ctx, d.see)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.see(nil, err)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
	<-ctx.Done()
}

// see gets the overrides that ZooKeeper has.
func (d *Desk) see(posted []Active, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.seenLocked()
	before := d.boardErr
	d.boardErr = err
	if err != nil {
		if before == nil || before.Error() != err.Error() {
			d.log.Error("the overrides in ZooKeeper are not known; what was in force stays so until it ends", "error", err)
		}
		return
	}
	if before != nil {
		d.log.Info("the overrides in ZooKeeper are known again")
	}
	d.posted = posted
	d.refreshLocked()
}

func (d *Desk) seenLocked() {
	if !d.isKnown {
		d.isKnown = true
		close(d.known)
	}
}

func (d *Desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.wake != nil {
		d.wake.Stop()
	}
}

// errNoDesk is for the constructors of what works with a desk.
var errNoDesk = errors.New("emergency: the desk is nil; make one with NewDesk")
