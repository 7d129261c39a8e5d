package override

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// String tells the override in one line: "freeze db/* below 80 until 2026-11-22
// 14:00 UTC by ana: disk full (INC-4411)".
func (o Override) String() string { return o.Summary(time.Time{}) }

// Summary is String for a reader who knows the date: the date of the end
// is left out when it is that of now.
func (o Override) Summary(now time.Time) string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	if whom := o.Match.describe(o.Kind == Pause); whom != "" {
		b.WriteString(" " + whom)
	}
	if what := o.describe(); what != "" {
		b.WriteString(what)
	}
	fmt.Fprintf(&b, " until %s by %s: %s (%s)", clock(o.Until, now), o.By, o.Reason, o.ID)
	return b.String()
}

// describe says what the kind makes of those whom it concerns.
func (o Override) describe() string {
	var b strings.Builder
	if p := o.Priority; p != nil {
		b.WriteString(" to " + level(*p))
	}
	if f := o.Forceful; f != nil {
		b.WriteString(map[bool]string{true: ", forceful", false: ", polite"}[*f])
	}
	if o.Token != 0 {
		b.WriteString(" with token " + strconv.FormatInt(o.Token, 10))
	}
	for field, d := range o.timeouts() {
		if *d != nil {
			fmt.Fprintf(&b, ", %s %s", strings.TrimSuffix(field, "_timeout"), words.Duration(**d))
		}
	}
	return b.String()
}

// describe says what it concerns; of everything, that.
func (m Match) describe(jobs bool) string {
	var parts []string
	if m.Scope != "" {
		parts = append(parts, m.Scope)
	}
	if m.Job != "" {
		parts = append(parts, "job "+m.Job)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		parts = append(parts, name+"="+m.Labels[name])
	}
	switch {
	case len(parts) > 0:
	case jobs:
		parts = append(parts, "all jobs")
	default:
		parts = append(parts, "everything")
	}
	if p := m.PriorityAbove; p != nil {
		parts = append(parts, "above "+level(*p))
	}
	if p := m.PriorityBelow; p != nil {
		parts = append(parts, "below "+level(*p))
	}
	return strings.Join(parts, " ")
}

// String tells whom it concerns, for example "db/* job nightly-* team=orders
// below 80"; "everything" if that is so.
func (m Match) String() string { return m.describe(false) }

// Equal reports whether two overrides say the same, to the word.
func (o Override) Equal(p Override) bool {
	if o.ID != p.ID || o.Kind != p.Kind || !o.Until.Equal(p.Until) || o.By != p.By || o.Reason != p.Reason ||
		o.Token != p.Token {
		return false
	}
	a, b := o.Match, p.Match
	if a.Scope != b.Scope || a.Job != b.Job || !maps.Equal(a.Labels, b.Labels) {
		return false
	}
	return same(a.PriorityBelow, b.PriorityBelow) && same(a.PriorityAbove, b.PriorityAbove) &&
		same(o.Priority, p.Priority) && same(o.Forceful, p.Forceful) &&
		same(o.WaitingTimeout, p.WaitingTimeout) && same(o.LeaseTimeout, p.LeaseTimeout) &&
		same(o.CleanupTimeout, p.CleanupTimeout) && same(o.AcquireTimeout, p.AcquireTimeout)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// timeouts are the timeouts by their names, in the order in which they are
// shown.
func (o *Override) timeouts() iter.Seq2[string, **time.Duration] {
	return func(yield func(string, **time.Duration) bool) {
		_ = yield("waiting_timeout", &o.WaitingTimeout) && yield("lease_timeout", &o.LeaseTimeout) &&
			yield("cleanup_timeout", &o.CleanupTimeout) && yield("acquire_timeout", &o.AcquireTimeout)
	}
}

// clock writes a time as people read it, in UTC; without the day when that is
// today.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	format := "15:04 UTC"
	if t.Second() != 0 {
		format = "15:04:05 UTC"
	}
	if y, m, d := t.Date(); now.Year() != y || now.Month() != m || now.Day() != d {
		format = "2006-01-02 " + format
	}
	return t.Format(format)
}

// stamp writes a time as it is written in a file.
func stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
