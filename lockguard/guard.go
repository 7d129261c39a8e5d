package lockguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A Guard runs work under locks. It is safe for concurrent use, and one is
// enough for a process.
//
// Operators have the last word ([WithOverrides]). A boost or a cap changes what a
// request asks for, also while it waits; a freeze takes it out of the queue until
// it ends; an extension gives requests and holders more time; with a bypass the
// work runs without the lock ([Info].Bypass). Holders are otherwise left alone,
// except by a lock that is taken for a person ([Guard.Override]): then the cause is
// an [OverriddenError]. What is done to holders against their will, and what
// overrides do, is on record before ([WithAuditor]). A polite request whose holders
// do not finish their cleanup can be decided about by people or rules
// ([WithApprover]).
//
// Work that goes on in another process takes its lock with it: a requirement with a
// Hold id leads to a Hold whose [Reference] others can join ([Guard.Join]) or, when
// its process has ended or is to be relieved, adopt ([Guard.Adopt]), with the same
// token. [Guard.Enqueue] makes a request in the background, which can be adopted
// while it waits.
type Guard struct {
	locker    locker
	logger    *slog.Logger
	observers []Observer
	owner     string
	classes   classes
	trace     func(context.Context, Subject) string
	dress     func(context.Context, Subject) context.Context // nil: nothing is added
	retry     *Retry
	ticket    *Ticket   // of the one request that this variant makes; nil: none
	overrides Overrides // nil: none
	auditor   Auditor   // nil: none
	approver  Approver  // nil: none
	acts      *acts     // of overrides, on record
	host      string
	pid       int
	origin    *Guard // of which this is a variant: their Holds nest
}

// An Option changes a Guard. See New.
type Option func(*Guard) error

// WithObserver adds an Observer. It can be given several times; each observer
// gets every event, in the order in which they were given.
func WithObserver(observer Observer) Option {
	return func(g *Guard) error {
		if observer == nil {
			return errors.New("lockguard: WithObserver: the observer is nil; leave the option out")
		}
		g.observers = append(g.observers, observer)
		return nil
	}
}

// WithOwner sets the owner of requirements that name none. Defaults to
// "host:pid".
func WithOwner(owner string) Option {
	return func(g *Guard) error {
		if owner == "" {
			return errors.New(`lockguard: WithOwner: the owner is empty; leave the option out for "host:pid"`)
		}
		g.owner = owner
		return nil
	}
}

// WithLogger sets where panics of observers go, and what overrides do without
// being on record, or do not for that reason. Defaults to slog.Default().
// For the events themselves see LogObserver.
func WithLogger(logger *slog.Logger) Option {
	return func(g *Guard) error {
		if logger == nil {
			return errors.New("lockguard: WithLogger: the logger is nil; leave the option out for slog.Default()")
		}
		g.logger = logger
		return nil
	}
}

// WithTrace sets what makes the W3C traceparent that travels with a request
// through ZooKeeper, and on to the environment of commands (jobs.Command sets
// TRACEPARENT to it). It is called once for each request, after the observers
// have got Waiting.
func WithTrace(trace func(ctx context.Context, about Subject) string) Option {
	return func(g *Guard) error {
		if trace == nil {
			return errors.New("lockguard: WithTrace: the function is nil; leave the option out")
		}
		g.trace = trace
		return nil
	}
}

// WithContext sets what adds values to the context of work and of its hooks, such
// as the span that they belong to. It is called for each lock when that has been
// granted, before the Hold is returned. Of the context that f returns the values
// alone count. Defaults to none.
func WithContext(f func(ctx context.Context, about Subject) context.Context) Option {
	return func(g *Guard) error {
		if f == nil {
			return errors.New("lockguard: WithContext: the function is nil; leave the option out")
		}
		g.dress = f
		return nil
	}
}

// A Hook cleans up after an interruption. Its context has the values
// of the caller's context and carries the Hold. It ends with the grace or, with
// a *LostError as its cause, when the lock is no longer held; it does not end
// with the caller's context.
type Hook func(ctx context.Context) error

// Do acquires the lock, runs work under a context that carries the Hold, and
// releases the lock. For several locks see DoAll.
//
// When that context ended before work returned, whatever work returns, the
// hooks run: after work, one at a time, the last one first, still under the
// lock. A hook that fails, panics or overruns the grace does not keep the
// others from running. Panics of work and of hooks become *PanicError.
//
// The hooks run as well when work returns an error that wraps ErrStopped.
//
// Do returns nil only if work returned nil and was not interrupted. Its error
// wraps the error of work, the cause of the interruption, the *LostError if the
// lock was lost, and the errors of the hooks. That ZooKeeper has not confirmed
// the release is no error of Do, because the work was done under the lock and
// the release is tried on in the background: the event Released reports it.
// Work that was not started at all gets the error that Acquire would return.
func (g *Guard) Do(
	ctx context.Context, requirement Requirement, work func(ctx context.Context) error, hooks ...Hook,
) error {
	return g.DoAll(ctx, []Requirement{requirement}, work, hooks...)
}

// DoAll is Do under several locks: all of them, or none. See AcquireAll for how
// they are acquired, and for the Hold that the context of the work carries.
//
// The context of the work ends as soon as any of the locks is preempted, has
// to go because its lease is over, or is lost; the cause is that lock's. Then
// the hooks run under all locks that are still held, as long as the shortest
// grace lasts that any of them was given, or as the shortest cleanup timeout
// without a preemption. When one lock is lost, they run as after the loss of
// all. At last all locks are released, the last acquired first.
//
// Hooks need a cleanup timeout in every requirement.
func (g *Guard) DoAll(
	ctx context.Context, requirements []Requirement, work func(ctx context.Context) error, hooks ...Hook,
) error {
	if work == nil {
		return &RequestError{Field: "work", Reason: "is nil; give the function that needs the lock"}
	}
	hold, err := g.acquireAll(ctx, requirements, hooks)
	if err != nil {
		return err
	}
	return hold.run(ctx, work)
}

// Acquire waits for the lock and returns it as a Hold, which must be released.
//
// The context of the Hold derives from ctx: when ctx ends while the lock is
// held, the Hold is interrupted. To bound the wait alone, use AcquireTimeout.
//
// If ctx carries a live Hold of this Guard with the same scope, the new Hold is
// nested: it shares lock, lease, grace and token with the first, whose
// requirement goes on to rule, and the lock is given away when the last of them
// is released. A nested Hold of one that has been interrupted is refused with
// the cause, except in a hook.
//
// The error is, or wraps: *RequestError (all problems at once),
// *lock.NotAcquiredError, *lock.CleanupPendingError,
// *lock.QueueFullError, *lock.EvictedError, *lock.UnavailableError, *UpgradeError, the cause of
// ctx, or why the lock had to be given away before work could start.
// Whatever the error, the lock is not granted later.
func (g *Guard) Acquire(ctx context.Context, requirement Requirement) (*Hold, error) {
	return g.acquireAll(ctx, []Requirement{requirement}, nil)
}

// AcquireAll acquires several locks, all of them or none, and returns them as
// one Hold, which must be released.
//
// The locks are acquired one after the other in the order of their scopes (by
// bytes), so that two such calls never wait for each other in a circle. The
// shortest acquire timeout bounds all of it, from the call on; 0 in any
// requirement makes it a try: all locks must be free. When a lock is preempted,
// must be released because its lease is over, or is lost while later ones are waited
// for, all that is held is given back at once, the last one first, and all is
// begun anew within the same time, from the back of the queues. The events of
// each lock tell that. A lease that was used up by waiting is extended to its
// whole length, unless that is less than a tenth of it.
//
// Token and Info of the Hold are those of the first requirement given, Tokens
// has those of all. Lost, Check, Extend and OnCleanup are about all locks. Its
// context is interrupted as DoAll says. The context of the Hold carries all the
// locks: each of them can be acquired again through it.
//
// A lock that ctx carries already is shared with the outer Hold. It stands
// outside the order: do not wait for more locks under a lock.
//
// One requirement is acquired as by Acquire. The errors are those of Acquire.
func (g *Guard) AcquireAll(ctx context.Context, requirements []Requirement) (*Hold, error) {
	return g.acquireAll(ctx, requirements, nil)
}

// Observe tells the observers of an event that a layer above the Guard has
// seen: Skipped, Stuck. At is filled in when it is zero.
func (g *Guard) Observe(ctx context.Context, event Event) {
	event.At = cmp.Or(event.At, time.Now())
	g.tell(context.WithoutCancel(ctx), event)
}

func newGuard(locker locker, options ...Option) (*Guard, error) {
	g := &Guard{
		locker: locker,
		logger: slog.Default(),
		acts:   &acts{},
		pid:    os.Getpid(),
		host:   hostname(),
		trace:  func(context.Context, Subject) string { return "" },
	}
	g.owner = fmt.Sprintf("%s:%d", g.host, g.pid)
	var problems []error
	for _, option := range options {
		problems = append(problems, option(g))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	g.origin = g
	return g, nil
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host
}

func (g *Guard) acquireAll(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	if err := refuse(requirements, hooks); err != nil {
		return nil, err
	}
	if err := g.refuseApart(ctx, requirements); err != nil {
		return nil, err
	}
	hold, err := g.acquireRetrying(ctx, requirements, hooks)
	if err == nil {
		hold.dress()
	}
	return hold, err
}

func (g *Guard) acquireRetrying(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	if g.retry != nil {
		return g.retry.acquire(ctx, requirements, func(requirements []Requirement) (*Hold, error) {
			return g.acquireOnce(ctx, requirements, hooks)
		})
	}
	return g.acquireOnce(ctx, requirements, hooks)
}

func (g *Guard) acquireOnce(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	if len(requirements) > 1 {
		return g.gather(ctx, requirements, hooks)
	}
	hold, _, err := g.acquire(ctx, ctx, requirements[0], hooks, errand{})
	return hold, err
}

// acquire waits for one lock until ctx ends; the Hold goes on to derive from
// caller. When gone, the lock was granted, but had to be given away or was lost
// at once; or other locks must not be held while it is frozen.
func (g *Guard) acquire(
	ctx, caller context.Context, requirement Requirement, hooks []Hook, e errand,
) (hold *Hold, gone bool, err error) {
	requirement = requirement.withDefaults(g.owner)
	if around, ok := g.carried(caller, requirement.Scope); ok {
		if hold, over, err := around.nest(caller, requirement, hooks); !over {
			return hold, false, err
		}
	}
	r := e.request(caller, g, requirement)
	hold, err = r.begin(ctx, caller, hooks)
	if err == nil {
		return hold, false, nil
	}
	if e.among.keeps(r, err) {
		return nil, true, err
	}
	err = r.refused(ctx, err)
	return nil, r.isGone(err), err
}

// refuse returns what is wrong with these requirements and hooks.
func refuse(requirements []Requirement, hooks []Hook) error {
	if len(requirements) == 1 {
		r := requirements[0]
		return errors.Join(r.Validate(), r.refuseHooks(hooks))
	}
	return refuseSeveral(requirements, hooks)
}

// mayNest reports whether a holder in mode held has what mode asks for.
func mayNest(held, mode priority.Mode) bool {
	return held == priority.Exclusive || mode == priority.Shared
}

// protect turns a panic of f into an error.
func protect(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{In: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// An errand is how a lock is acquired that is one of several.
type errand struct {
	among   *bundle // nil: it is the only one
	timeout *time.Duration
	last    bool
	under   []string // IDs of what the same work holds
}

// early reports whether the lock is granted before others that the work needs.
func (e errand) early() bool { return e.among != nil && !e.last }

// yields reports whether other locks are held that must not wait for a freeze
// to end.
func (e errand) yields() bool { return e.among != nil && e.among.holdsAny() }

// request returns what acquires the lock.
func (e errand) request(caller context.Context, g *Guard, requirement Requirement) *request {
	var r *request
	if e.among == nil {
		r = newRequest(caller, g, requirement)
		e.under = heldBy(caller)
	} else {
		r = e.among.take(caller, requirement, e.timeout)
		e.under = append(heldBy(caller), e.among.ids()...)
	}
	r.mu.Lock() // an attempt of an earlier bundle may not have heard yet that it is over
	defer r.mu.Unlock()
	r.errand = e
	return r
}
