package lockguard

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Requirement declares the lock that a piece of work needs. Only Scope has
// to be set. A nil pointer means unset.
type Requirement struct {
	// AcquireTimeout bounds everything from call to grant, waiting included.
	// 0: take the lock only if that needs nobody's consent, never preempt.
	// nil: as long as the context lives.
	AcquireTimeout *time.Duration

	// Class is what the lock is counted under in metrics, in place of its scope: the
	// template that the scope was made from, tenant/{id}/billing, or the scope itself
	// where there are few. It changes nothing about the lock. At most
	// recipes.MaxClass bytes, printable. Defaults to what WithClasses says, else "":
	// it is counted as undeclared.
	Class string `json:",omitempty"`

	// CleanupTimeout is how long the hooks need to put things right once the
	// holder is asked to go. Must be below LeaseTimeout. Defaults to 0: there
	// is nothing to clean up, and hooks are refused.
	CleanupTimeout time.Duration

	// Forceful takes the lock when the grace of an outranked holder is over.
	// Otherwise the request waits for the release, until its WaitingTimeout.
	Forceful bool

	// Hold is the id of the hold that the requirement leads to: unique for each, as
	// one made of the names of what runs and of its run is. Others can then join the
	// Hold or adopt it, also from other processes: Guard.Join, Guard.Adopt. At most
	// recipes.MaxHold bytes, printable. Such a Hold is not downgraded. Defaults to "":
	// nobody can.
	Hold string

	// Job is the name by which operators' overrides find the work. Defaults to
	// Owner.
	Job string

	// Labels are what operators' overrides can find the work by as well.
	Labels map[string]string

	// LeaseTimeout is how long the work needs. It is lazy: after it the holder
	// keeps the lock until somebody else asks, of whatever priority. It loses the
	// lock when that one has waited for its grace, and also when its connection ends.
	// One that is cut off then may believe for five sixteenths of a session timeout more that it
	// holds: see "Takeovers and breaks" in docs/safety.md. Defaults to 10m.
	LeaseTimeout time.Duration

	// LockDelay is how long nobody is granted the lock after an unclean end of the
	// hold: a crash, the end of the session, an eviction. A release is not delayed.
	// It is for work on something that cannot refuse an old token. At most
	// recipes.MaxLockDelay. Defaults to 0: none.
	LockDelay time.Duration

	// Message says, for people, why the lock is wanted: at most
	// recipes.MaxMessage bytes.
	Message string

	// MinRuntime is how long the holder is not asked to go for somebody's
	// priority: from the grant on or, with several locks, from when all are
	// held. The end of the lease, an emergency and an administrator do not wait
	// for it. At most LeaseTimeout; as long as that means: nothing but those
	// three ends the hold, also when the lease is extended. Defaults to 0.
	MinRuntime time.Duration

	// Mode is exclusive (default), which has the lock alone, or shared, which
	// has it together with other shared ones.
	Mode priority.Mode

	// NeverPreempts asks nobody to go for Priority, which then orders the queue
	// alone; those whose lease is over are asked all the same. An override that
	// raises the request to priority.Emergency goes before it. It excludes a
	// PreemptDelta.
	NeverPreempts bool

	// Owner names the work for people, for example the job's name. It is no
	// identity. Defaults to the owner of the Guard.
	Owner string

	// PreemptDelta is by how much Priority has to be higher than a holder's to
	// ask it to go for that. It changes neither the order of the queue nor what
	// happens at the end of a lease. Defaults to 0, which is 1: any higher
	// priority.
	PreemptDelta int

	// Priority orders the queue, and decides who may preempt whom: 0 (default,
	// lowest) to 2147483646.
	Priority priority.Level

	// Scope is what the lock protects, for example
	// "cluster/orders/resource/users": at most 200 bytes, in which a slash
	// counts as 3, without empty parts or white space at the ends of a part.
	// Scopes do not contain each other.
	Scope string

	// WaitingTimeout is how long a preemptor waits for the holder's cleanup,
	// counted from its preempt request. 0: now. nil: for ever.
	WaitingTimeout *time.Duration
}

// Validate returns everything that is wrong with r, joined (errors.Join); each
// problem is a *RequestError that says what to write instead.
func (r Requirement) Validate() error {
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}

	if _, err := recipes.EscapeScope(r.Scope); err != nil {
		problems = append(problems, err)
	}
	if reason := refuseMode(r.Mode); reason != "" {
		refuse("mode", "%s", reason)
	}
	if err := r.Priority.CheckJob(); err != nil {
		refuse("priority", "%s", err)
	}
	lease := r.withDefaults("").LeaseTimeout
	if lease < 0 {
		refuse("lease_timeout", "%s is negative; write how long the work needs, or leave it out for %s", lease, recipes.DefaultLeaseTimeout)
	}
	switch {
	case r.CleanupTimeout < 0:
		refuse("cleanup_timeout", "%s is negative; write how long the cleanup needs, or leave it out when there is none", r.CleanupTimeout)
	case lease >= 0 && r.CleanupTimeout >= lease:
		refuse("cleanup_timeout", "cleanup_timeout (%s) must be shorter than lease_timeout (%s); shorten the one or lengthen the other", r.CleanupTimeout, lease)
	}
	switch {
	case r.LockDelay < 0:
		refuse("lock_delay", "%s is negative; write how long work that was cut off may still do harm, or leave it out", r.LockDelay)
	case r.LockDelay > recipes.MaxLockDelay:
		refuse("lock_delay", "%s is longer than %s; write how long work that was cut off may still do harm", r.LockDelay, recipes.MaxLockDelay)
	}
	switch {
	case r.MinRuntime < 0:
		refuse("min_runtime", "%s is negative; write how long the work is not to be preempted, or leave it out", r.MinRuntime)
	case lease >= 0 && r.MinRuntime > lease:
		refuse("min_runtime", "min_runtime (%s) is longer than lease_timeout (%s); shorten the one or lengthen the other", r.MinRuntime, lease)
	}
	switch {
	case r.PreemptDelta < 0:
		refuse("preempt_delta", "%d is negative; write 1 for any higher priority, or leave it out", r.PreemptDelta)
	case r.PreemptDelta > 0 && r.NeverPreempts:
		refuse("preempt_delta", "has no meaning for a requirement that never preempts; leave one of them out")
	}
	if err := recipes.CheckHold(r.Hold); err != nil {
		problems = append(problems, err)
	}
	if err := recipes.CheckClass(r.Class); err != nil {
		problems = append(problems, err)
	}
	if n := len(r.Message); n > recipes.MaxMessage {
		refuse("message", "takes %d bytes, more than %d; write a shorter one", n, recipes.MaxMessage)
	}
	if n := len(r.Owner); n > recipes.MaxOwner {
		refuse("owner", "takes %d bytes, more than %d; write a shorter one", n, recipes.MaxOwner)
	}
	if d := r.WaitingTimeout; d != nil && *d < 0 {
		refuse("waiting_timeout", "%s is negative; write 0 to wait for no cleanup, or leave it out to wait for ever", *d)
	}
	if d := r.AcquireTimeout; d != nil && *d < 0 {
		refuse("acquire_timeout", "%s is negative; write 0 to try once, or leave it out to wait for ever", *d)
	}
	return errors.Join(problems...)
}

func refuseMode(mode priority.Mode) string {
	switch mode {
	case priority.Exclusive, priority.Shared:
		return ""
	}
	return fmt.Sprintf("%s is unknown; write exclusive or shared", mode)
}

// Plan returns what would become of r if it were made when s was seen, see
// recipes.Plan.
func (r Requirement) Plan(s recipes.LockState) recipes.Plan {
	return s.Plan(r.withDefaults("").request("", nil))
}

// refuseHooks returns what is wrong with running these hooks under r.
func (r Requirement) refuseHooks(hooks []Hook) error {
	if len(hooks) > 0 && r.CleanupTimeout == 0 {
		return &RequestError{
			Field:  "cleanup_timeout",
			Reason: "is not set, so a cleanup hook would have no time to run; write how long the cleanup needs",
		}
	}
	for _, hook := range hooks {
		if hook == nil {
			return &RequestError{Field: "hooks", Reason: "a cleanup hook is nil; leave it out"}
		}
	}
	return nil
}

func (r Requirement) withDefaults(owner string) Requirement {
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = recipes.DefaultLeaseTimeout
	}
	if r.Owner == "" {
		r.Owner = owner
	}
	if r.Job == "" {
		r.Job = r.Owner
	}
	return r
}

func (r Requirement) request(trace string, notify func(recipes.Notice)) recipes.Request {
	return recipes.Request{
		Owner:          r.Owner,
		Message:        r.Message,
		Mode:           r.Mode,
		Priority:       r.Priority,
		LeaseTimeout:   r.LeaseTimeout,
		CleanupTimeout: r.CleanupTimeout,
		WaitingTimeout: r.WaitingTimeout,
		AcquireTimeout: r.AcquireTimeout,
		Forceful:       r.Forceful,
		Hold:           r.Hold,
		Class:          r.Class,
		LockDelay:      r.LockDelay,
		MinRuntime:     r.MinRuntime,
		PreemptDelta:   r.PreemptDelta,
		NeverPreempts:  r.NeverPreempts,
		Trace:          trace,
		Notify:         notify,
	}
}

// refuseSeveral returns everything that is wrong with these requirements
// together, and with hooks under all of them.
func refuseSeveral(requirements []Requirement, hooks []Hook) error {
	if len(requirements) == 0 {
		return &RequestError{Field: "requirements", Reason: "there is none; give one for each lock"}
	}
	var problems []error
	first := make(map[string]int, len(requirements))
	for i, r := range requirements {
		at := fmt.Sprintf("requirements[%d].", i)
		problems = append(problems, within(at, r.Validate())...)
		problems = append(problems, within(at, r.refuseHooks(hooks))...)
		if j, twice := first[r.Scope]; twice {
			problems = append(problems, &RequestError{
				Field:  at + "scope",
				Reason: fmt.Sprintf("%q is that of requirements[%d] already; give each scope once", r.Scope, j),
			})
			continue
		}
		first[r.Scope] = i
	}
	return errors.Join(problems...)
}

// within returns the single problems of err, their fields with a prefix.
func within(prefix string, err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, err := range all.Unwrap() {
			problems = append(problems, within(prefix, err)...)
		}
		return problems
	}
	if r, ok := errors.AsType[*RequestError](err); ok {
		err = &RequestError{Field: prefix + r.Field, Reason: r.Reason}
	}
	return []error{err}
}
