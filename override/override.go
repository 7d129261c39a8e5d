package override

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A Kind is what an override does.
type Kind string

// The kinds of overrides.
const (
	// Boost raises the priority of matching requests, makes them forceful or
	// shortens their waiting timeout. Holders are left alone.
	Boost Kind = "boost"

	// Cap lowers the priority of matching requests, makes them polite or
	// lengthens their waiting timeout. Holders are left alone.
	Cap Kind = "cap"

	// Freeze lets no matching request be granted: it leaves the queue, and
	// comes back afterwards. Holders are left alone.
	Freeze Kind = "freeze"

	// Hold takes the lock of one scope at emergency priority and keeps it, for a
	// person.
	Hold Kind = "hold"

	// PreemptNow preempts the holder of the lock of one scope, and takes it by
	// force at the end of the grace period. It is done once.
	PreemptNow Kind = "preempt-now"

	// Pause skips the ticks of matching jobs.
	Pause Kind = "pause"

	// Extend gives matching requests more time.
	Extend Kind = "extend"

	// Bypass lets matching work run without its lock.
	Bypass Kind = "bypass"
)

// Kinds returns all kinds, in the order of their constants.
func Kinds() []Kind {
	return []Kind{Boost, Cap, Freeze, Hold, PreemptNow, Pause, Extend, Bypass}
}

// An Override is an operator's word that goes before what jobs declare, for a
// limited time. Every one has ID, Kind, Match, Until, By and Reason; which of
// the others it has depends on its kind.
type Override struct {
	// ID names it for people, for example the number of the incident: 1 to 64
	// letters, digits, dots, underscores and hyphens, the first a letter or a
	// digit.
	ID string

	Kind Kind

	// Match says whom it concerns. Hold and PreemptNow need a Scope without
	// wildcards and nothing else; Pause has no Scope and no priorities.
	Match Match

	// Until is when it ends by itself, by the clock of the ZooKeeper servers.
	Until time.Time

	// By is who says so, Reason why: at most 200 and 1000 bytes.
	By, Reason string

	// Priority is what the priority of a request becomes: at least, with Boost,
	// where it may be priority.Emergency; at most, with Cap. nil: as it is.
	Priority *priority.Level

	// Forceful is what the request becomes: true with Boost, false with Cap.
	// nil: as it is.
	Forceful *bool

	// WaitingTimeout is what the waiting timeout of the request becomes: at
	// most with Boost, at least with Cap and Extend. With Hold and PreemptNow it
	// bounds the grace period of the holder; nil: its cleanup timeout.
	WaitingTimeout *time.Duration

	// What Extend makes of the other timeouts: at least this. nil: as they are.
	LeaseTimeout, CleanupTimeout, AcquireTimeout *time.Duration

	// Token, with PreemptNow, is that of the holder that is meant: no other
	// holder is preempted. 0: any holder of the lock.
	Token int64
}

// Match says which requests an override concerns: those that meet every
// condition given. An empty one fits all.
type Match struct {
	// Scope and Job are patterns: * stands for any text, slashes included, ? for
	// one character. Empty: any.
	Scope, Job string

	// Labels must all be there with these values.
	Labels map[string]string

	// PriorityBelow and PriorityAbove bound the priority, themselves excluded:
	// the one that was asked for; with Freeze the one that is left of it when
	// boosts and caps have been applied.
	PriorityBelow, PriorityAbove *priority.Level
}

// all reports whether no scope, job or label limits it.
func (m Match) all() bool {
	return fitsAnything(m.Scope) && fitsAnything(m.Job) && len(m.Labels) == 0
}

// fitsAnything reports whether a pattern limits nothing: none, or one of wildcards alone,
// such as ?*, that fits names of every length from a few characters on.
func fitsAnything(pattern string) bool {
	return pattern == "" || strings.Contains(pattern, "*") && strings.Trim(pattern, "*?") == ""
}

// ForAll reports whether it changes, pauses or keeps out every job's requests: no
// scope, job or label limits it. A limit by priority does not count. The operator
// who applies such an override has to confirm it.
func (o Override) ForAll() bool {
	switch o.Kind {
	case Boost, Cap, Freeze, Pause, Extend:
		return o.Match.all()
	case Hold, PreemptNow, Bypass: // refused without a scope or a job
	}
	return false
}

// A Subject is whom overrides are asked about.
type Subject struct {
	Scope  string
	Job    string
	Labels map[string]string
}

// GrantsEmergency reports whether requests are made at, or raised to,
// priority.Emergency in its name.
func (o Override) GrantsEmergency() bool {
	switch o.Kind {
	case Hold, PreemptNow:
		return true
	case Boost:
		return o.Priority != nil && *o.Priority == priority.Emergency
	case Cap, Freeze, Pause, Extend, Bypass:
	}
	return false
}
