package override

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
)

// DefaultMaxDuration is how far ahead an override may end unless the configuration says
// otherwise.
const DefaultMaxDuration = 24 * time.Hour

// How long the texts of an Override may be, in bytes.
const (
	maxID      = 64
	maxBy      = 200
	maxReason  = 1000
	maxPattern = 500
	maxLabels  = 32
	maxLabel   = 200 // name or value
)

// Limits are what an Override is checked against.
type Limits struct {
	// Now is the time on the ZooKeeper servers.
	Now time.Time

	// MaxDuration is how long after Now it may end. Defaults to
	// DefaultMaxDuration.
	MaxDuration time.Duration

	// AllowBypass lets work run without its lock.
	AllowBypass bool

	// AllowEnded takes one that has ended: it is left in a file, say, and does
	// nothing any more.
	AllowEnded bool
}

// takes says which fields a kind has beside those that all have. Of some it
// needs one at least.
var takes = map[Kind]struct {
	fields []string
	one    bool
}{
	Boost:      {[]string{"priority", "forceful", "waiting_timeout"}, true},
	Cap:        {[]string{"priority", "forceful", "waiting_timeout"}, true},
	Freeze:     {},
	Hold:       {[]string{"waiting_timeout"}, false},
	PreemptNow: {[]string{"waiting_timeout", "token"}, false},
	Pause:      {},
	Extend:     {[]string{"waiting_timeout", "lease_timeout", "cleanup_timeout", "acquire_timeout"}, true},
	Bypass:     {},
}

// Validate returns all that is wrong with an override, joined: each is a
// *FieldError.
func (o Override) Validate(limits Limits) error {
	c := &checker{}
	c.text("id", o.ID, maxID, `write a name such as "INC-4411"`)
	if reason := refuseID(o.ID); o.ID != "" && reason != "" {
		c.refuse("id", "%s", reason)
	}
	c.text("by", o.By, maxBy, "write who says so")
	c.text("reason", o.Reason, maxReason, "write why")
	c.until(o.Until, limits)
	if _, known := takes[o.Kind]; !known {
		c.kind(o.Kind)
		c.match(o.Match)
		return errors.Join(c.problems...)
	}
	if o.Kind == Bypass && !limits.AllowBypass {
		c.refuse("kind", "bypass is not allowed: work would run without its lock; set emergency.allow_bypass: "+
			"true in the configuration, or use another kind")
	}
	c.match(o.Match)
	c.matchOf(o.Kind, o.Match)
	c.fields(o)
	return errors.Join(c.problems...)
}

// A checker collects what is wrong.
type checker struct{ problems []error }

func (c *checker) refuse(field, format string, args ...any) {
	c.problems = append(c.problems, &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (c *checker) text(field, text string, most int, instead string) {
	switch {
	case strings.TrimSpace(text) == "":
		c.refuse(field, "is missing; %s", instead)
	case len(text) > most:
		c.refuse(field, "takes %d bytes; write at most %d", len(text), most)
	case !printable(text):
		c.refuse(field, "%q has a control character or invalid UTF-8 in it; write one line of printable characters", text)
	}
}

func (c *checker) kind(kind Kind) {
	names := make([]string, 0, len(takes))
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	if kind == "" {
		c.refuse("kind", "is missing; write one of %s", strings.Join(names, ", "))
		return
	}
	c.refuse("kind", "%q is no kind of override; write one of %s", kind, strings.Join(names, ", "))
}

func (c *checker) until(until time.Time, limits Limits) {
	most := limits.MaxDuration
	if most <= 0 {
		most = DefaultMaxDuration
	}
	now := limits.Now
	switch {
	case until.IsZero():
		c.refuse("until", "is missing; write when it ends, %s at most", stamp(now.Add(most)))
	case until.After(now.Add(most)):
		c.refuse("until", "%s is %s ahead, and emergency.max_duration is %s; write %s or earlier",
			stamp(until), words.Duration(until.Sub(now).Round(time.Second)), words.Duration(most), stamp(now.Add(most)))
	case !now.Before(until) && !limits.AllowEnded:
		c.refuse("until", "%s has passed, it is %s; write when it ends", stamp(until), stamp(now))
	}
}

// fields checks those that only some kinds have.
func (c *checker) fields(o Override) {
	given, may := o.given(), takes[o.Kind]
	for _, field := range given {
		if slices.Contains(may.fields, field) {
			continue
		}
		instead := "remove it"
		if kinds := having(field); len(kinds) > 0 {
			instead += ", or use " + strings.Join(kinds, " or ")
		}
		c.refuse(field, "%s has none; %s", o.Kind, instead)
	}
	if may.one && len(given) == 0 {
		c.refuse("kind", "%s changes nothing without any of %s; write one", o.Kind, strings.Join(may.fields, ", "))
	}
	bad := o.badTerms()
	c.strength(o, bad)
	c.timeouts(o, bad)
	if o.Token < 0 && o.Kind == PreemptNow {
		c.refuse("token", "%d is no token; write that of the holder", o.Token)
	}
}

// strength checks the priority and whether requests are forceful; bad are the
// terms that would be wrong for any request.
func (c *checker) strength(o Override, bad map[string]string) {
	if p := o.Priority; p != nil && slices.Contains(takes[o.Kind].fields, "priority") {
		switch {
		case bad["priority"] != "":
			c.refuse("priority", "%s", bad["priority"])
		case o.Kind == Boost && *p == priority.Default:
			c.refuse("priority", "0 is the lowest and raises nothing; write 1 or more")
		case o.Kind == Cap && *p == priority.Emergency:
			c.refuse("priority", "emergency is the highest and lowers nothing; write a lower one")
		}
	}
	if f := o.Forceful; f != nil {
		switch {
		case o.Kind == Boost && !*f:
			c.refuse("forceful", "a boost cannot make a request polite; write true, or use cap")
		case o.Kind == Cap && *f:
			c.refuse("forceful", "a cap cannot make a request forceful; write false, or use boost")
		}
	}
}

// timeouts checks the durations that a kind may have.
func (c *checker) timeouts(o Override, bad map[string]string) {
	for field, d := range o.timeouts() {
		now := field == "waiting_timeout" && o.Kind != Cap && o.Kind != Extend // 0 is: at once
		switch {
		case *d == nil || !slices.Contains(takes[o.Kind].fields, field):
		case bad[field] != "":
			c.refuse(field, "%s", bad[field])
		case **d == 0 && !now:
			c.refuse(field, "0s lengthens nothing; write a duration such as 30s")
		case **d > 0 && **d < time.Millisecond:
			c.refuse(field, "%s is too short; write 1ms or more", **d)
		}
	}
}

// badTerms returns what priority.Terms says of the terms that the override sets, by field.
func (o Override) badTerms() map[string]string {
	terms := priority.Terms{WaitingTimeout: o.WaitingTimeout, AcquireTimeout: o.AcquireTimeout}
	if o.Priority != nil {
		terms.Priority = *o.Priority
	}
	if o.LeaseTimeout != nil {
		terms.LeaseTimeout = *o.LeaseTimeout
	}
	if o.CleanupTimeout != nil {
		terms.CleanupTimeout = *o.CleanupTimeout
	}
	bad := map[string]string{}
	if all, ok := terms.ValidateRequest().(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			if problem, ok := errors.AsType[*priority.RequestError](err); ok {
				bad[problem.Field] = problem.Reason
			}
		}
	}
	return bad
}

// having names the kinds that have a field.
func having(field string) (kinds []string) {
	for _, k := range Kinds() {
		if slices.Contains(takes[k].fields, field) {
			kinds = append(kinds, string(k))
		}
	}
	return kinds
}

// given names the fields that are set of those that not every kind has.
func (o Override) given() (fields []string) {
	if o.Priority != nil {
		fields = append(fields, "priority")
	}
	if o.Forceful != nil {
		fields = append(fields, "forceful")
	}
	for field, d := range o.timeouts() {
		if *d != nil {
			fields = append(fields, field)
		}
	}
	if o.Token != 0 {
		fields = append(fields, "token")
	}
	return fields
}

func refuseID(id string) string {
	for i, c := range id {
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		switch {
		case letterOrDigit:
		case i == 0:
			return fmt.Sprintf("%q starts with %q; start with a letter or a digit", id, c)
		case c != '.' && c != '_' && c != '-':
			return fmt.Sprintf("%q contains %q; write only letters, digits, dots, underscores and hyphens", id, c)
		}
	}
	return ""
}

// refuseScope says why a pattern can fit no scope: see lock.EscapeScope.
func refuseScope(pattern string) string {
	switch {
	case pattern == "":
		return ""
	case strings.HasPrefix(pattern, "/"), strings.HasSuffix(pattern, "/"):
		return strconv.Quote(pattern) + " fits no scope: none begins or ends with a slash; write it like cluster/*"
	case strings.TrimSpace(pattern) != pattern:
		return strconv.Quote(pattern) + " fits no scope: it has white space at its ends; write " +
			strconv.Quote(strings.TrimSpace(pattern))
	case strings.Contains(pattern, "//"):
		return strconv.Quote(pattern) + " fits no scope: none has an empty part; write one slash"
	}
	return ""
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
