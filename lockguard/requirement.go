package lockguard

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Requirement declares the lock that a piece of work needs. Only Scope has
// to be set.
type Requirement struct {
	// Scope is what the lock protects, for example
	// "cluster/orders/resource/users": at most 200 bytes, in which a slash
	// counts as 3, without empty parts or white space at the ends of a part.
	// Scopes do not contain each other.
	Scope string

	// CleanupTimeout, one of the Terms, must be below LeaseTimeout. Without it there is nothing to clean up, and
	// hooks are refused.
	priority.Terms

	// Owner, Message, Hold and Class are those of priority.Identity. Owner defaults to the owner of the Guard.
	Owner string

	// Job is the name by which operators' overrides find the work. Defaults to
	// Owner.
	Job string

	// Labels are what operators' overrides can find the work by as well.
	Labels map[string]string

	// Message says why the lock is wanted.
	Message string

	// Hold lets others join the Hold and adopt it, also from other processes: Guard.Join, Guard.Adopt. A Hold
	// with an id is not downgraded.
	Hold string

	// Class is what metrics count the lock under. Defaults to what WithClasses says.
	Class string
}

// Validate returns everything that is wrong with r, joined (errors.Join); each
// problem is a *RequestError that says what to write instead.
func (r Requirement) Validate() error {
	_, err := lock.EscapeScope(r.Scope)
	return errors.Join(err, r.Terms.Validate(), r.identity().Validate())
}

// identity is what the request for r says of itself. Its fields are not embedded: people write requirements
// by hand, with the Owner beside the Scope, and the rest of an Identity is not theirs to set.
func (r Requirement) identity() priority.Identity {
	return priority.Identity{Owner: r.Owner, Message: r.Message, Hold: r.Hold, Class: r.Class}
}

// Plan returns what would become of r if it were made when s was seen, see
// inspect.Plan.
func (r Requirement) Plan(s lock.State) inspect.Plan {
	return inspect.PlanFor(s, r.withDefaults("").request("", nil))
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
	r.Terms = r.WithDefaults()
	if r.Owner == "" {
		r.Owner = owner
	}
	if r.Job == "" {
		r.Job = r.Owner
	}
	return r
}

func (r Requirement) request(trace string, notify func(lock.Notice)) lock.Request {
	identity := r.identity()
	identity.Trace = trace
	return lock.Request{Terms: r.Terms, Identity: identity, Notify: notify}
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
