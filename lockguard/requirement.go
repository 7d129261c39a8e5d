package lockguard

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Requirement declares the lock that a piece of work needs. Only Scope has
// to be set.
type Requirement struct {
	// Scope is what the lock protects, for example
	// "cluster/orders/resource/users": at most 200 bytes, in which a slash
	// counts as 3, without empty parts or white space at the ends of a part.
	// Scopes do not contain each other.
	Scope string

	// CleanupTimeout, one of the Terms, must be below LeaseTimeout. Without it there is nothing to clean up, and hooks are
	// refused.
	priority.Terms

	// Owner names the work for people, for example the job's name. It is no
	// identity. Defaults to the owner of the Guard.
	Owner string

	// Job is the name by which operators' overrides find the work. Defaults to
	// Owner.
	Job string

	// Labels are what operators' overrides can find the work by as well.
	Labels map[string]string

	// Message says, for people, why the lock is wanted: at most
	// recipes.MaxMessage bytes.
	Message string

	// Hold is the id of the hold that the requirement leads to: unique for each, as
	// one made of the names of what runs and of its run is. Others can then join the
	// Hold or adopt it, also from other processes: Guard.Join, Guard.Adopt. At most
	// recipes.MaxHold bytes, printable. Such a Hold is not downgraded. Defaults to "":
	// nobody can.
	Hold string

	// Class is what the lock is counted under in metrics, in place of its scope: the
	// template that the scope was made from, tenant/{id}/billing, or the scope itself
	// where there are few. It changes nothing about the lock. At most
	// recipes.MaxClass bytes, printable. Defaults to what WithClasses says, else "":
	// it is counted as undeclared.
	Class string
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
	problems = append(problems, r.Terms.Validate())
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
	return errors.Join(problems...)
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
	r.Terms = r.WithDefaults()
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
		Terms: r.Terms, Owner: r.Owner, Message: r.Message, Hold: r.Hold, Class: r.Class, Trace: trace, Notify: notify,
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
