package lockguard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A Hold is a lock that is held, or several that are held together (AcquireAll).
// Its methods are safe for concurrent use.
//
// Hooks run after a loss as well, but under a context that has ended already:
// the lock may have another holder, and with it what a hook would touch. So look
// at the context first. A holder that may soon lose its lock to a silence of
// ZooKeeper is warned before ([Hold.AtRisk]): work that then stops with an error
// that wraps [ErrStopped], as commands do, has its hooks run while the lock is
// still held. A command as a hook (jobs.Command) is started neither after a loss
// nor in such a silence.
type Hold struct {
	lock           *heldLock
	caller         context.Context // from which the Hold's context derives
	ctx            context.Context
	cancel         context.CancelCauseFunc
	unwatch        func() bool   // stops waiting for the end of caller
	around         place         // what caller carries
	inCleanup      bool          // acquired by a hook of the same lock
	cleansUp       bool          // its work is a cleanup: it ends with the grace
	cleanupTimeout time.Duration // at most the lock's
	mode           priority.Mode // as asked for
	bundle         *bundle       // of the locks that are held together, if this Hold is on all of them

	// Guarded by lock.mu.
	memberOf *bundle // whose Hold has the work and the hooks of this one
	phase    holdPhase
	cause    error     // why the work was interrupted
	since    time.Time // when
	asked    bool      // to release
	lost     *LostError
	hooks    []Hook
	grace    grace
}

type holdPhase uint8

const (
	working holdPhase = iota
	cleaning
	ended
)

// Info says what a Hold holds.
type Info struct {
	Requirement   Requirement // with its defaults, and as overrides have changed it
	ID            string      // of the request, as in the events
	Token         Token
	Since         time.Time // local clock
	LeaseDeadline time.Time // local clock; nothing happens then without a waiter

	// Bypass is the override by which the work runs without the lock; nil: it
	// holds the lock.
	Bypass *override.Override
}

// FromContext returns the Hold that ctx carries: the innermost, if there are
// several.
func FromContext(ctx context.Context) (*Hold, bool) {
	p, ok := ctx.Value(placeKey{}).(place)
	return p.hold, ok
}

// Context returns the context of the work. It derives from the caller's and
// carries the Hold. When it ends, context.Cause says why: *PreemptedError,
// *LeaseExpiredError, *OverriddenError, *ShutdownError, *LostError, or ErrReleased
// after a release in good order. Its Err is always context.Canceled.
func (h *Hold) Context() context.Context { return h.ctx }

// Token returns the fencing token: it grows with every grant of the scope.
// Give it to whatever the work writes to, and let that refuse a smaller one.
// For several locks see Tokens.
func (h *Hold) Token() Token {
	return h.lock.stream.subject().Token
}

// Tokens returns the fencing token of each scope that the Hold is on. A token
// says something to what is protected by its own scope alone.
func (h *Hold) Tokens() map[string]Token {
	tokens := make(map[string]Token, 1)
	for _, l := range h.locks() {
		about := l.stream.subject()
		tokens[about.Scope] = about.Token
	}
	return tokens
}

// Info says what is held. For a nested Hold it describes the outer one, for
// several locks the first.
func (h *Hold) Info() Info {
	l := h.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	about := l.stream.subject()
	return Info{
		Requirement:   l.requirement,
		ID:            about.ID,
		Token:         about.Token,
		Since:         l.since,
		LeaseDeadline: l.lease.end,
		Bypass:        l.bypass(),
	}
}

// Lost returns a channel that is closed when the lock, or one of several, is no
// longer held. Work that is already winding up after a preemption watches it:
// its context has ended and cannot say it.
func (h *Hold) Lost() <-chan struct{} {
	if h.bundle != nil {
		return h.bundle.lostSignal
	}
	return h.lock.lostSignal
}

// Deadline returns until when the lock is certainly held if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer;
// the event AtRisk says when none comes. It is not the end of the lease: a lock
// whose lease is over may be taken before, see "Takeovers and breaks" in
// docs/safety.md. Locks that are held together have it in common.
func (h *Hold) Deadline() time.Time { return h.lock.grant.Deadline() }

// Check says whether the lock, or each of several, is held right now: nil, the
// *LostError, or ErrReleased after the release. A preempted holder
// still holds.
//
// The context of the Hold ends with a loss by itself, as soon as the process
// runs. Check is for when it may not have run: before a step that cannot be
// undone, after SIGCONT, after a long pause of whatever kind. It counts the time
// that the machine was suspended, does not ask ZooKeeper, and takes a few
// microseconds. Another pause may come right after it: what you write to must
// refuse a token smaller than one that it has seen all the same.
func (h *Hold) Check() error {
	if h.isReleased() {
		return ErrReleased
	}
	var problems []error
	for _, l := range h.locks() {
		problems = append(problems, l.check())
	}
	return join(problems...)
}

// Trace returns the W3C traceparent that travels with the request through
// ZooKeeper: what WithTrace made. "" when it made none.
func (h *Hold) Trace() string {
	return h.lock.stream.subject().Trace
}

// AtRisk returns a channel that is closed when ZooKeeper has been silent for so
// long that work which needs time to stop should stop now: the lock is still
// held, until Deadline. It is closed already if the silence goes on. Call it
// anew when the work starts something else, because an answer ends the risk.
func (h *Hold) AtRisk() <-chan struct{} { return h.lock.atRisk() }

// Extend starts a new lease of the given length, which must be longer than the
// cleanup timeout. It is refused with the *PreemptedError, *LeaseExpiredError or
// *OverriddenError once the holder is preempted, with the *LostError after a loss and with
// ErrReleased after the release. Of several locks, those before the one that
// refuses have the new lease.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	if h.isReleased() {
		return ErrReleased
	}
	for _, l := range h.locks() {
		if err := l.extend(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// OnCleanup adds a hook to those that run if the work is interrupted. It can
// still be added after the interruption, as long as the work runs; then
// ErrReleased is returned. A requirement without a cleanup timeout gives hooks
// no time: *RequestError.
func (h *Hold) OnCleanup(hook Hook) error {
	if err := (Requirement{
		Terms: priority.Terms{CleanupTimeout: h.cleanupTimeout},
	}).refuseHooks([]Hook{hook}); err != nil {
		return err
	}
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	if h.phase != working {
		return ErrReleased
	}
	h.hooks = append(h.hooks, hook)
	return nil
}

// Release says that the work has ended. It cancels the context of the Hold,
// runs the hooks if the work was interrupted, and gives the lock away if this
// was the last of nested Holds. The values of ctx are used, its end is not:
// Release waits for the hooks, and a few seconds for ZooKeeper.
//
// It returns the errors of the hooks; the *LostError if the lock was lost; and
// any other error if ZooKeeper has not confirmed the release: it is then tried
// on in the background, until the session ends at the latest. A second Release
// returns ErrReleased and changes nothing.
func (h *Hold) Release(ctx context.Context) error {
	end, ok := h.conclude(ctx, nil)
	if !ok {
		return ErrReleased
	}
	var problems []error
	for _, d := range end.departures {
		if d.lost != nil {
			problems = append(problems, d.lost)
		} else {
			problems = append(problems, d.release)
		}
	}
	return join(append(problems, end.hooks)...)
}

// shutDown interrupts the work because the caller's context has ended.
func (h *Hold) shutDown() {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	h.shutDownLocked()
}

func (h *Hold) shutDownLocked() {
	if h.caller.Err() != nil {
		h.interruptLocked(shutdownCause(h.caller, h.lock.requirement.Scope))
	}
}

func (h *Hold) askLocked(cause error, deadline time.Time, grace time.Duration) {
	switch {
	case h.inCleanup: // ends with the context of its hook
	case h.cleansUp:
		h.asked = true
		h.armLocked(deadline, grace)
	default:
		h.pressLocked(cause, deadline, grace)
	}
}

func (h *Hold) pressLocked(cause error, deadline time.Time, grace time.Duration) {
	h.asked = true
	h.interruptLocked(cause)
	if b := h.memberOf; b != nil {
		h.lock.mu.whenFree(func() { b.press(cause, deadline, grace) })
		return
	}
	h.armLocked(deadline, grace)
}

func (h *Hold) loseLocked(lost *LostError) {
	if h.lost == nil {
		h.lost = lost
	}
	if b := h.memberOf; b != nil {
		h.lock.mu.whenFree(func() { b.lose(lost) })
	}
	h.interruptLocked(lost)
	h.grace.stop()
	h.grace.endHook(lost)
}

func (h *Hold) interruptLocked(cause error) {
	if h.phase == working && h.cause == nil {
		h.cause, h.since = cause, time.Now()
		h.cancel(cause)
	}
}

func (h *Hold) isReleased() bool {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	return h.phase == ended
}

func (h *Hold) endLocked() {
	h.phase = ended
	h.grace.stop()
}

// addHoldLocked returns a new Hold with a context that derives from caller.
func (l *heldLock) addHoldLocked(caller context.Context, requirement Requirement, hooks []Hook) *Hold {
	h := &Hold{
		lock: l, caller: caller, hooks: slices.Clone(hooks), cleanupTimeout: requirement.CleanupTimeout,
		mode: requirement.Mode,
	}
	if h.cleanupTimeout == 0 || h.cleanupTimeout > l.requirement.CleanupTimeout {
		h.cleanupTimeout = l.requirement.CleanupTimeout
	}
	h.around, _ = caller.Value(placeKey{}).(place)

	values := context.WithValue(context.WithoutCancel(caller), placeKey{}, place{hold: h})
	ctx, cancel := context.WithCancelCause(values)
	h.ctx, h.cancel = workContext{ctx, caller}, cancel
	h.unwatch = context.AfterFunc(caller, h.shutDown)
	l.holds = append(l.holds, h)
	return h
}

// locks are those that h is on.
func (h *Hold) locks() []*heldLock {
	if h.bundle != nil {
		return h.bundle.given
	}
	return []*heldLock{h.lock}
}

// on returns the Hold on a scope that h is, or that is held together with it.
func (h *Hold) on(g *Guard, scope string) (*Hold, bool) {
	all := []*Hold{h}
	if h.bundle != nil {
		all = append(all, h.bundle.members...)
	}
	for _, h := range all {
		if h.lock.guard.origin == g.origin && h.lock.requirement.Scope == scope {
			return h, true
		}
	}
	return nil, false
}

func (h *Hold) describe() string {
	all := h.locks()
	scopes := make([]string, len(all))
	for i, l := range all {
		scopes[i] = fmt.Sprintf("%q", l.requirement.Scope)
	}
	if len(all) == 1 {
		return "lock " + scopes[0]
	}
	return "locks " + strings.Join(scopes, ", ")
}
