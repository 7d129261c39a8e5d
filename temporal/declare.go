package temporal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Lock says which lock an activity needs, and what becomes of the activity
// while another holder has it. Only Scope has to be set.
//
// It is declared for a type of activities ([Declare], [Locker]), or for a single
// call ([WithActivityLock]); the call goes before Declare, that before Locker.
// The more special one replaces the other as a whole, but for Cleanup.
type Lock struct {
	// Requirement is the lock. Three of its fields have a meaning of their own
	// here:
	//
	// Scope is a template of text/template over the arguments of the activity:
	// the dot is the first one, {{arg 1}} the second one, and so on; {{workflowID}}
	// is that of the workflow. "cluster/{{.Cluster}}/resource/{{arg 1}}". The
	// template, as it is written, is the Class, unless that is set.
	//
	// AcquireTimeout bounds the wait over all attempts that yield, not that of
	// one attempt. At its end the activity fails with ErrTypeLockWaitTimeout, for
	// good.
	//
	// Priority 0 is replaced by one that is derived from the priority that the
	// activity has in Temporal, see PriorityOf.
	//
	// Owner defaults to the execution and its attempt, Job to the type of the
	// activity, Message to the id of the workflow.
	lockguard.Requirement

	// Also are more locks that the activity needs: all of them or none, see
	// lockguard.Guard.AcquireAll. The activity then waits without a ticket, so
	// that it loses its place in the queues when it yields.
	Also []lockguard.Requirement

	// Cleanup cleans up when the activity was interrupted: under the
	// lock, while the activity goes on for Temporal, and within CleanupTimeout,
	// which it needs. More hooks can be added by the activity itself, with
	// lockguard.FromContext and Hold.OnCleanup. It does not travel with a call: a
	// call is cleaned up after as its type says.
	Cleanup lockguard.Hook

	// InSlotWait is how long an attempt waits in its slot before it yields, see
	// BusyHybrid. Defaults to DefaultInSlotWait.
	InSlotWait time.Duration

	// OnBusy says what an attempt does while another holder has the lock. Defaults
	// to BusyHybrid.
	OnBusy Busy

	// OnPreempted says how a preempted attempt ends. Defaults to
	// PreemptedRetry.
	OnPreempted Preempted

	// RetryDelay is how long Temporal waits before the next attempt when one has
	// yielded or was preempted. The server rounds it up to a second or so.
	// Defaults to DefaultRetryDelay, and up to MaxRetryDelay when the same
	// activity yields again and again.
	RetryDelay time.Duration

	// SkipResult is what the activity returns when OnBusy is BusySkip and
	// another holder has the lock. Declared for a call it travels as JSON, in the
	// clear. Defaults to none: the zero value of the result.
	SkipResult any
}

const (
	// DefaultInSlotWait is how long an attempt waits in its slot before it yields.
	DefaultInSlotWait = 5 * time.Second

	// DefaultRetryDelay is how soon an attempt that has yielded is followed by
	// the next one.
	DefaultRetryDelay = time.Second

	// MaxRetryDelay is the longest delay that comes of yielding repeatedly.
	MaxRetryDelay = 5 * time.Second
)

// A Locker is a struct of activities that says which locks they need. It is
// asked when it is registered with a worker, which has to be done with
// activity.RegisterOptions.SkipInvalidStructFunctions: Locks is no activity. What
// it says counts in that worker. A struct that embeds several of them has no Locks
// in Go, and is refused unless it has one of its own.
type Locker interface {
	// Locks returns locks by the name of the method, or by that under which the
	// activity is registered.
	Locks() map[string]Lock
}

// Declare says which lock activities of a type need, by the name under which
// they are registered. A type can be declared once.
func Declare(activityType string, lock Lock) PluginOption {
	return func(p *Plugin) error {
		if activityType == "" {
			return errors.New(
				"temporal: Declare: the activity type is empty; write the name under which the activity is registered")
		}
		return p.declarations.add(activityType, lock)
	}
}

// Validate returns everything that is wrong with l, joined (errors.Join); each
// problem is a *lockguard.RequestError that says what to write instead.
func (l Lock) Validate() error {
	_, err := l.compile()
	return err
}

// compiled is a Lock whose scopes have been understood.
type compiled struct {
	Lock
	scopes []*scopeTemplate // of the Requirement, then of Also
}

func (l Lock) compile() (*compiled, error) {
	c := &compiled{Lock: l}
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	for i, r := range l.requirements() {
		at := ""
		if i > 0 {
			at = fmt.Sprintf("also[%d].", i-1)
		}
		if r.Hold != "" {
			refuse(at+"hold", "%q: the plugin gives each hold an id of its own; leave it out", r.Hold)
		}
		scope, err := parseScope(r.Scope)
		if err != nil {
			refuse(at+"scope", "%v", err)
		}
		c.scopes = append(c.scopes, scope)
		if scope.varies() {
			r.Scope = "as/the/arguments/say"
		}
		problems = append(problems, under(at, r.Validate())...)
		if l.Cleanup != nil && r.CleanupTimeout == 0 {
			refuse(at+"cleanup_timeout", "is not set, so the cleanup would have no time to run; write how long it needs")
		}
	}
	if !l.OnBusy.known() {
		refuse("on_busy", "%s is unknown; write hybrid, wait, retry or skip", l.OnBusy)
	}
	if !l.OnPreempted.known() {
		refuse("on_preempted", "%s is unknown; write retry, fail or cooperate", l.OnPreempted)
	}
	switch {
	case l.InSlotWait < 0:
		refuse("in_slot_wait", "%s is negative; write how long an attempt waits before it yields, or leave it out for %s",
			l.InSlotWait, DefaultInSlotWait)
	case l.InSlotWait > 0 && l.OnBusy != BusyHybrid:
		refuse("in_slot_wait", "has a meaning for hybrid alone, not for %s; leave one of them out", l.OnBusy)
	}
	if l.RetryDelay < 0 {
		refuse("retry_delay", "%s is negative; write how soon the next attempt may come, or leave it out for %s",
			l.RetryDelay, DefaultRetryDelay)
	}
	if l.SkipResult != nil && l.OnBusy != BusySkip {
		refuse("skip_result", "has a meaning for skip alone, not for %s; leave one of them out", l.OnBusy)
	}
	if l.OnBusy == BusySkip && l.AcquireTimeout != nil && *l.AcquireTimeout > 0 {
		refuse("acquire_timeout", "%s has no meaning for skip, which does not wait; leave it out", *l.AcquireTimeout)
	}
	return c, errors.Join(problems...)
}

// requirements are those of all the locks, the first one first.
func (l Lock) requirements() []lockguard.Requirement {
	return slices.Concat([]lockguard.Requirement{l.Requirement}, l.Also)
}

// cleanup is the longest cleanup timeout of all the locks.
func (l Lock) cleanup() time.Duration {
	var longest time.Duration
	for _, r := range l.requirements() {
		longest = max(longest, r.CleanupTimeout)
	}
	return longest
}

// patience is the shortest acquire timeout of all the locks; nil: none is set.
func (l Lock) patience() *time.Duration {
	var shortest *time.Duration
	for _, r := range l.requirements() {
		if d := r.AcquireTimeout; d != nil && (shortest == nil || *d < *shortest) {
			shortest = d
		}
	}
	return shortest
}

func (l Lock) inSlotWait() time.Duration { return cmp.Or(l.InSlotWait, DefaultInSlotWait) }

// of returns the requirements of one call.
func (c *compiled) of(args arguments) ([]lockguard.Requirement, error) {
	requirements := c.requirements()
	for i, scope := range c.scopes {
		text, err := scope.render(args)
		if err != nil {
			return nil, fmt.Errorf("scope %q: %w", requirements[i].Scope, err)
		}
		if _, err := lock.EscapeScope(text); err != nil {
			return nil, fmt.Errorf("scope %q became %q: %w", requirements[i].Scope, text, err)
		}
		requirements[i].Scope = text
		requirements[i].Class = cmp.Or(requirements[i].Class, scope.class())
	}
	return requirements, nil
}

// under returns the single problems of err, their fields with a prefix.
func under(prefix string, err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, err := range all.Unwrap() {
			problems = append(problems, under(prefix, err)...)
		}
		return problems
	}
	if r, ok := errors.AsType[*lockguard.RequestError](err); ok && prefix != "" {
		err = &lockguard.RequestError{Field: prefix + r.Field, Reason: r.Reason}
	}
	return []error{err}
}
