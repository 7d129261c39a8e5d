package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// DefaultMaxTickets is how many places in queues a worker keeps for attempts
	// that have yielded.
	DefaultMaxTickets = 1000

	// DefaultClaimWindow is how long a lock is kept for the next attempt.
	DefaultClaimWindow = 15 * time.Second

	// lookEvery is how often a worker asks whether the activity is still there
	// for which it keeps a place.
	lookEvery = 5 * time.Second

	// handoverTime is how long a worker that stops keeps places for attempts on
	// other workers.
	handoverTime = 3 * time.Second
)

// WithMaxTickets sets how many places in queues each worker keeps for attempts
// that have yielded. When there are as many, others wait on in their slots, or
// lose their place (BusyRetry). 0: none are kept. Defaults to DefaultMaxTickets.
func WithMaxTickets(n int) PluginOption {
	return func(p *Plugin) error {
		if n < 0 {
			return fmt.Errorf("temporal: WithMaxTickets: %d is negative; write 0 to keep no places", n)
		}
		p.maxTickets = n
		return nil
	}
}

// WithClaimWindow sets how long a lock that was granted to an attempt which has
// yielded is kept for the next attempt. It should be longer than any RetryDelay,
// and than attempts stand in the task queue. Defaults to DefaultClaimWindow.
func WithClaimWindow(window time.Duration) PluginOption {
	return func(p *Plugin) error {
		if window <= 0 {
			return fmt.Errorf(
				"temporal: WithClaimWindow: %s is not positive; write how soon the next attempt comes at the latest", window)
		}
		p.claimWindow = window
		return nil
	}
}

// A bid is a request that goes on in the background. *lockguard.Ticket is one.
type bid interface {
	Joined() <-chan struct{} // it stands in the queue, and has a Reference
	Reference() (lockguard.Reference, bool)
	Done() <-chan struct{}
	Hold() (*lockguard.Hold, error) // after Done
}

var _ bid = (*lockguard.Ticket)(nil)

// isNotThere reports whether a place that was kept is gone.
func isNotThere(err error) bool { return errors.As(err, new(*lock.NotThereError)) }

// bidContext is the context of a bid. It ends with that of an attempt until it
// is loosened from it, and may get a deadline that becomes known later.
type bidContext struct {
	context.Context
	end      context.CancelCauseFunc
	loosen   func() bool
	deadline atomic.Pointer[time.Time]
}

func newBidContext(ctx context.Context) *bidContext {
	b := &bidContext{}
	b.Context, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	b.loosen = context.AfterFunc(ctx, func() { b.end(context.Cause(ctx)) })
	if deadline, ok := ctx.Deadline(); ok {
		b.deadline.Store(&deadline)
	}
	return b
}

// Deadline is when the attempt has to return.
func (b *bidContext) Deadline() (time.Time, bool) {
	if d := b.deadline.Load(); d != nil {
		return *d, true
	}
	return time.Time{}, false
}

// A pledge is a bid that a function makes.
type pledge struct {
	ref  *lockguard.Reference
	done chan struct{}
	hold *lockguard.Hold
	err  error
}

func newPledge(ref *lockguard.Reference, acquire func() (*lockguard.Hold, error)) *pledge {
	p := &pledge{ref: ref, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.hold, p.err = acquire()
	}()
	return p
}

// always is a channel that is closed.
func always() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (p *pledge) Joined() <-chan struct{}        { return always() }
func (p *pledge) Done() <-chan struct{}          { return p.done }
func (p *pledge) Hold() (*lockguard.Hold, error) { return p.hold, p.err }

func (p *pledge) Reference() (lockguard.Reference, bool) {
	if p.ref == nil {
		return lockguard.Reference{}, false
	}
	return *p.ref, true
}

var errUnclaimed = errors.New("temporal: no attempt has come to claim the lock")

// A parked ticket is a bid that goes on when its attempt has yielded.
type parkedTicket struct {
	bid    bid
	ctx    *bidContext
	info   activity.Info
	look   func(ctx context.Context) bool // nil, or reports whether the activity is still there
	window time.Duration
	logger *slog.Logger
}

// tickets are the places that a worker keeps.
type tickets struct {
	mu    sync.Mutex
	count int
	all   sync.WaitGroup
}

// reserve reports whether another place can be kept.
func (t *tickets) reserve(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= limit {
		return false
	}
	t.count++
	t.all.Add(1)
	return true
}

func (t *tickets) free() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
	t.all.Done()
}

// drain leaves the places to attempts on other workers for a moment, and then
// gives them up.
func (t *tickets) drain(ctx context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, handoverTime)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		t.all.Wait()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	end()
	<-gone
}

// keep keeps a place that was reserved, until the next attempt has taken it over,
// or it is not needed any more. It ends with over, at the latest.
func (t *tickets) keep(over context.Context, p parkedTicket) {
	go func() {
		defer t.free()
		why := p.wait(over)
		p.ctx.end(why)
		<-p.bid.Done()
		if hold, err := p.bid.Hold(); err == nil {
			_ = hold.Release(p.ctx)
		}
		p.logger.Debug("ticket ended", "activity_id", p.info.ActivityID,
			"workflow_id", p.info.WorkflowExecution.ID, "reason", why)
	}()
}

// wait returns why the place is not to be kept any more.
func (p parkedTicket) wait(over context.Context) error {
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	done := p.bid.Done()
	var unclaimed <-chan time.Time
	var asked <-chan struct{}
	for {
		select {
		case <-over.Done():
			return context.Cause(over)
		case <-done:
			hold, err := p.bid.Hold()
			if err != nil {
				return err
			}
			done, asked = nil, hold.Context().Done()
			claim := time.NewTimer(p.window)
			defer claim.Stop()
			unclaimed = claim.C
		case <-asked: // or lost
			return errors.New("taken over, lost, or wanted by another request")
		case <-unclaimed:
			return errUnclaimed
		case <-looks.C:
			if p.look != nil && !p.look(over) {
				return errors.New("the activity is gone")
			}
		}
	}
}

// looker returns what reports whether an activity is still going to be
// attempted. When the server does not answer, it is.
func looker(c client.Client, info activity.Info) func(ctx context.Context) bool {
	if !info.IsWorkflowActivity() {
		return nil
	}
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, lookEvery)
		defer cancel()
		workflow, err := c.DescribeWorkflowExecution(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
		if err != nil {
			return !isGone(err)
		}
		if status := workflow.GetWorkflowExecutionInfo().GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return false
		}
		for _, pending := range workflow.GetPendingActivities() {
			if pending.GetActivityId() == info.ActivityID {
				return pending.GetState() != enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED && !pending.GetPaused()
			}
		}
		return false
	}
}

// retryDelay is how soon the next attempt is to come.
func (l Lock) retryDelay(yields int) time.Duration {
	if l.RetryDelay > 0 {
		return l.RetryDelay
	}
	return min(DefaultRetryDelay<<min(yields, 10), MaxRetryDelay)
}
