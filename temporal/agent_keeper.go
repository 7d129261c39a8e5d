package temporal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Why a keeper has to end.
var (
	errCanceled   = errors.New("the workflow does not need the lock any more")
	errClosed     = errors.New("the workflow is closed")
	errHandover   = errors.New("the worker stops")
	errKept       = errors.New("the lock is kept for the next run")
	errMaxHold    = errors.New("it has been held for as long as it may be")
	errReleased   = errors.New("the lock was released")
	errSucceeded  = errors.New("another attempt has begun in this process")
	errSuperseded = errors.New("another attempt has begun")
)

// A keeper is one attempt of a holder activity: it has the lock of one WithLock,
// tells the workflow what becomes of it, and tells Temporal that it is alive.
type keeper struct {
	agent       *agent
	worker      string
	input       holderInput
	requirement lockguard.Requirement
	id          string          // of the hold
	activity    context.Context // has ended; for what it is about
	service     service
	token       []byte // of the activity
	workflow    string
	run         string
	heartbeat   time.Duration // timeout
	queued      time.Duration // before this attempt, by the server's clock
	inherited   holderDetails

	ctx       context.Context // ends with the first order
	order     context.CancelCauseFunc
	vacated   chan struct{} // closed when the lock is given away, or left to others
	done      chan struct{} // closed when the keeper has ended
	verdict   chan struct{} // closed when Temporal has said why it ends
	abandon   context.CancelFunc
	abandoned <-chan struct{} // closed when there is no time for that
	leaves    *possession     // what it has left to others; valid when it has ended

	possession *possession // only for keep
	lostBy     interruption
	since      time.Time // of the grant

	mu       sync.Mutex
	details  holderDetails
	said     error         // the verdict
	keepFor  time.Duration // for errKept
	news     *holdSignal   // to be sent
	until    time.Time     // of the grace that they speak of
	wakeTell chan struct{}
	wakeBeat chan struct{}
}

// epochs is how many signals an attempt may send.
const epochs = 1 << 20

func (k *keeper) start() {
	k.ctx, k.order = context.WithCancelCause(context.Background())
	k.vacated, k.done, k.verdict = make(chan struct{}), make(chan struct{}), make(chan struct{})
	k.wakeTell, k.wakeBeat = make(chan struct{}, 1), make(chan struct{}, 1)
	k.details = k.inherited
	k.details.Epoch = (k.inherited.Epoch/epochs + 1) * epochs
	abandoning, abandon := context.WithCancel(context.Background())
	k.abandon, k.abandoned = abandon, abandoning.Done()
	go k.keep()
}

// keep is the life of a keeper.
func (k *keeper) keep() {
	company, dismiss := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.beat(company) })
	running.Go(func() { k.teller(company) })
	left, d := k.end(k.possess())
	dismiss()
	running.Wait()
	k.leaves = left
	k.agent.done(k, left, d)
	if !closed(k.vacated) {
		close(k.vacated)
	}
	k.abandon()
	close(k.done)
}

// possess acquires the lock and holds it, until there is an order, or nothing to
// hold any more.
func (k *keeper) possess() error {
	err := k.acquire()
	for err == nil {
		if err = k.hold(); err == nil {
			err = k.lost(k.lostBy)
		}
	}
	return err
}

// acquire takes over what is there of the hold, or asks for the lock.
func (k *keeper) acquire() error {
	if k.possession != nil { // of this process
		if k.possession.lock != nil {
			k.begin(stateGranted)
			return nil
		}
		return k.obtain(stateGranted)
	}
	before, kept := k.inherited.Reference, false
	if before.Hold == "" && k.input.Adopt != nil {
		before, kept = *k.input.Adopt, true
	}
	if before.Hold == "" {
		return k.request(stateGranted)
	}
	err := k.adopt(before)
	switch {
	case err == nil:
		k.begin(stateGranted)
		return nil
	case k.ctx.Err() != nil:
		return context.Cause(k.ctx)
	case kept || before.Token == 0:
		return k.request(stateGranted)
	}
	return k.lost(lostBecause(before, "%v", err))
}

// adopt returns when the lock is taken over, or can no longer be.
func (k *keeper) adopt(before lockguard.Reference) error {
	for {
		p := newPossession(k.activity)
		err := p.adopt(k.ctx, k.agent.locks, k.requirement, before)
		if err == nil {
			k.possession = p
			return nil
		}
		if !unavailable(err) || k.ctx.Err() != nil {
			return err
		}
		k.agent.logger.Warn("lock of a workflow is not taken over yet",
			"scope", before.Scope, "workflow_id", k.workflow, "error", err)
		pause(k.ctx, unavailablePause)
	}
}

// unavailablePause is between requests while ZooKeeper does not answer.
const unavailablePause = time.Second

// request asks for the lock.
func (k *keeper) request(as holdState) error {
	start, limit := time.Now(), k.requirement.AcquireTimeout
	if limit != nil && *limit > 0 && as == stateGranted {
		limit = new(*limit - k.queued)
	}
	for {
		requirement := k.requirement
		requirement.Hold = k.id
		if limit != nil && *limit != 0 {
			left := *limit - time.Since(start)
			if left <= 0 {
				return k.notAcquired(context.DeadlineExceeded)
			}
			requirement.AcquireTimeout = &left
		}
		k.possession = newPossession(k.activity)
		k.possession.request(k.agent.locks, requirement)
		err := k.obtain(as)
		if err == nil || !unavailable(err) || k.ctx.Err() != nil {
			return err
		}
		k.agent.logger.Warn("lock of a workflow is not requested yet",
			"scope", k.requirement.Scope, "workflow_id", k.workflow, "error", err)
		pause(k.ctx, unavailablePause)
	}
}

// obtain waits for the grant.
func (k *keeper) obtain(as holdState) error {
	p := k.possession
	joined := p.ticket.Joined()
	for {
		select {
		case <-k.ctx.Done():
			return context.Cause(k.ctx)
		case <-joined:
			joined = nil
			k.record(func(d *holderDetails) { d.Reference = p.reference() })
		case <-p.ticket.Done():
			lock, err := p.ticket.held()
			if err != nil {
				k.possession = nil
				p.cancel()
				return k.notAcquired(err)
			}
			p.hold(lock, k.requirement)
			k.begin(as)
			return nil
		}
	}
}

// begin notifies the workflow that the lock is held, unless it knows.
func (k *keeper) begin(as holdState) {
	reference := k.possession.reference()
	before := k.inherited
	known := before.Told && before.Reference.Token == reference.Token
	k.since = time.Now()
	k.record(func(d *holderDetails) {
		d.Reference, d.Told = reference, known
		if !known {
			d.Held, d.Asked = 0, false
		}
	})
	k.advise()
	if !known {
		continued := k.input.Adopt != nil && k.input.Adopt.Token == reference.Token
		k.tell(holdSignal{State: as, Reference: reference, Continued: continued}, time.Time{})
	}
}

// advise warns of a session that is too short for a crash of this process: by the
// time that Temporal has noticed it the lock would be free.
func (k *keeper) advise() {
	sure := time.Until(k.possession.lock.Deadline()) // a little more than half of the session, unless a margin is set
	need := 3 * (k.heartbeat + 3*time.Second) / 2
	if session := sure * 7 / 4; session < need-need/20 {
		k.agent.logger.Warn("session timeout of ZooKeeper is short: when this worker dies, the lock of the workflow may "+
			"become free before another worker takes it over; lengthen it, or shorten the heartbeat timeout",
			"scope", k.requirement.Scope, "session_timeout_about", session.Round(100*time.Millisecond),
			"session_timeout_at_least", need, "heartbeat_timeout", k.heartbeat)
	}
}

// hold returns nil when the lock is lost, and otherwise why it need not be held
// any more.
func (k *keeper) hold() error {
	l := k.possession.lock
	limit := time.NewTimer(k.input.MaxHold - k.snapshot().Held)
	defer limit.Stop()
	asked := l.Context().Done()
	if k.possession.asked != nil {
		asked = nil
		k.asked(l, k.possession.asked)
	}
	for {
		select {
		case <-k.ctx.Done():
			return context.Cause(k.ctx)
		case <-limit.C:
			return errMaxHold
		case <-l.Lost():
			lost, ok := errors.AsType[*lockguard.LostError](l.Check())
			if ok && lost.Reason == lock.LossSuperseded {
				// Another attempt has it, or has given it away: Temporal will say.
				<-k.ctx.Done()
				return context.Cause(k.ctx)
			}
			k.lostBy = lostBecause(l.Reference(), "its keeper was told so")
			if ok {
				k.lostBy, _ = interruptionBy(lost, l.Reference())
			}
			return nil
		case <-asked:
			asked = nil
			k.asked(l, context.Cause(l.Context()))
		}
	}
}

// asked cancels the workflow. A loss is another matter.
func (k *keeper) asked(lock heldLock, by error) {
	i, until := interruptionBy(by, lock.Reference())
	if !i.Held() {
		return
	}
	if k.requirement.CleanupTimeout > 0 {
		k.possession.leave() // the cleanup is what the workflow does from here on
	}
	if !k.snapshot().Asked {
		k.tell(holdSignal{State: statePreempting, Reference: lock.Reference(), Interruption: &i}, until)
	}
}

// lost tells that the hold has ended, and asks for the lock anew if that is
// wanted.
func (k *keeper) lost(by interruption) error {
	if p := k.possession; p != nil {
		_ = p.release(k.ctx)
		k.possession = nil
	}
	if !k.input.Again {
		return by.error(nil, true)
	}
	reference := k.snapshot().Reference
	k.record(func(d *holderDetails) { *d = holderDetails{Epoch: d.Epoch} })
	k.inherited = holderDetails{}
	k.tell(holdSignal{State: stateLost, Reference: reference, Interruption: &by}, time.Time{})
	return k.request(stateRegranted)
}

// notAcquired is how the activity fails when the lock was not acquired.
func (k *keeper) notAcquired(err error) error {
	message := fmt.Sprintf("lock %q not acquired", k.requirement.Scope)
	timeout, late := errors.AsType[*lock.NotAcquiredError](err)
	switch kind := priority.CauseOf(err).Kind; {
	case unavailable(err):
		return err
	case errors.As(err, new(*lockguard.RequestError)):
		return failure(ErrTypeLockConfiguration, message, err, forGood, loud)
	case late && timeout.Waited == 0, kind == priority.KindCleanupPending, kind == priority.KindQueueFull,
		kind == priority.KindEvicted:
		return failure(ErrTypeLockBusy, message, err, forGood)
	case late, errors.Is(err, context.DeadlineExceeded):
		return failure(ErrTypeLockWaitTimeout, message, err, forGood)
	}
	// granted, and preempted or lost at once
	i, _ := interruptionBy(err, lockguard.Reference{Scope: k.requirement.Scope, Hold: k.id})
	return i.error(err, true)
}

// unavailable reports whether err is about a ZooKeeper that does not answer.
func unavailable(err error) bool {
	return errors.As(err, new(*lock.UnavailableError)) && !errors.As(err, new(*lock.NotAcquiredError))
}
