package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

const (
	// unset is the word for a timeout without an end.
	unset = "unset"

	builtin = "the default" // the source of a setting that is not in the file
)

// lockDelay is a key of scopes and of locks.
const lockDelay = "lock_delay"

// lockKeys are the settings that defaults.lock and the locks of jobs share.
var lockKeys = []key{
	inherits("mode", aMode, "exclusive", "exclusive has the lock alone, shared together with other shared ones.",
		func(s *lockSettings) *setting[priority.Mode] { return &s.mode }),
	inherits("priority", of[rank]{kind: oneOf(levelKind, kind{what: "class", scalar: ofName}), read: (*reader).priority},
		"0", "Who goes first and who may preempt whom: a number, or a class of priorities.classes.",
		func(s *lockSettings) *setting[rank] { return &s.priority }),
	inherits("lease_timeout", aLease, priority.DefaultLeaseTimeout,
		"How long the work needs; after it, any waiter may preempt the holder.",
		func(s *lockSettings) *setting[time.Duration] { return &s.lease }),
	inherits("cleanup_timeout", aTerm, "0s; commands "+words.Duration(jobs.DefaultCleanupTimeout),
		"How long the cleanup needs after an interruption.",
		func(s *lockSettings) *setting[time.Duration] { return &s.cleanup }),
	inherits("waiting_timeout", aLimit, unset, "How long to wait for the cleanup of a preempted holder; unset: for ever.",
		func(s *lockSettings) *setting[*time.Duration] { return &s.waiting }),
	inherits("acquire_timeout", aLimit, unset,
		"How long to wait for the lock in all; unset: until the next tick; 0: try once, never preempt.",
		func(s *lockSettings) *setting[*time.Duration] { return &s.acquire }),
	inherits("forceful", yesOrNo, "false",
		"Takes the lock when the holder's grace is over.", func(s *lockSettings) *setting[bool] { return &s.forceful }),
	inherits("min_runtime", aTerm, "0s", "How long the holder is not preempted for a higher priority.",
		func(s *lockSettings) *setting[time.Duration] { return &s.minimum }),
	inherits(lockDelay, aTerm, "0s", "How long the lock is not granted after a hold that ended without a release; "+
		words.Duration(priority.MaxLockDelay)+" at most.",
		func(s *lockSettings) *setting[time.Duration] { return &s.delay }),
}

var (
	aMode  = of[priority.Mode]{kind: word("exclusive", "shared"), read: (*reader).mode}
	aLease = of[time.Duration]{kind: aDuration, read: func(r *reader, v value) (time.Duration, bool) {
		return r.term(v, false)
	}}
	aTerm = of[time.Duration]{kind: aDuration, read: func(r *reader, v value) (time.Duration, bool) {
		return r.term(v, true)
	}}
	aLimit = of[*time.Duration]{kind: oneOf(aDuration, word(unset)), read: (*reader).limit} // can be taken back
)

var laterLockFields = []string{
	"permits", "max_hold", "hold_at_least", "max_preemptions", "preempts", "hook", "hooks",
}

var lockShape = shape{
	name:    "a lock",
	example: "write it like {scope: cluster/orders, lease_timeout: 10m}",
	keys: slices.Concat(
		[]key{needed(apart("scope", aText, "", "What the lock protects, for example cluster/orders."))},
		lockKeys,
		[]key{
			by("class", aText, "the scope", "What the lock is counted under in metrics, if many jobs have scopes alike: "+
				"a template such as tenant/{id}/billing.", (*reader).class),
			by("message", aText, "", "Why the lock is held, for people.", (*reader).message),
		},
	),
	later: laterLockFields,
	hints: map[string]string{
		"owner": "remove it, the job is the owner", "labels": "they belong to the job, beside locks",
		"name": `did you mean "scope"?`, "key": `did you mean "scope"?`,
		"cleanup": `did you mean "cleanup_timeout"? The command that cleans up is run.cleanup`,
	},
}

// lockSettings are the settings of a lock, each with where it comes from.
type lockSettings struct {
	mode     setting[priority.Mode]
	priority setting[rank]
	lease    setting[time.Duration]
	cleanup  setting[time.Duration]
	waiting  setting[*time.Duration]
	acquire  setting[*time.Duration]
	forceful setting[bool]
	minimum  setting[time.Duration]
	delay    setting[time.Duration]
}

// A lockEntry is what one lock of a job was made of.
type lockEntry struct {
	lockSettings
	at, scopeAt value
	scope       string
}

// among names the lock if the job has others.
func (l lockEntry) among(all []lockEntry) string {
	if len(all) == 1 {
		return ""
	}
	return " of " + quote(l.scope)
}

func builtinLockSettings() lockSettings {
	return lockSettings{
		lease:   setting[time.Duration]{v: priority.DefaultLeaseTimeout, from: builtin},
		cleanup: setting[time.Duration]{from: builtin},
	}
}

// modeAt is where the mode is written; lock, if it is inherited.
func (s lockSettings) modeAt(lock value) value {
	if s.mode.given {
		return s.mode.at
	}
	return lock
}

func (s setting[T]) origin() string {
	if s.given || s.from == "" {
		return ""
	}
	return ", " + s.from
}

func (r *reader) positive(v value) (time.Duration, bool)    { return r.duration(v, false) }
func (r *reader) notNegative(v value) (time.Duration, bool) { return r.duration(v, true) }

// term reads a duration of a lock, which may be 0 if zero is allowed. What else is wrong with it,
// priority.Terms says: see checkTerms.
func (r *reader) term(v value, zero bool) (time.Duration, bool) {
	if _, d, ok := r.length(v); !ok || d != 0 {
		return d, ok
	}
	return r.duration(v, zero)
}

// limit reads a duration that may be missing: the word unset takes back what
// defaults.lock says.
func (r *reader) limit(v value) (*time.Duration, bool) {
	if !v.exists() {
		return nil, false
	}
	if r.isScalar(v) && v.node.Value == unset {
		return nil, true
	}
	if r.isScalar(v) && v.node.Tag == tagNull {
		r.problem(v, "has no value", `write a duration such as "30s", or unset for no limit`)
		return nil, false
	}
	d, ok := r.term(v, true)
	if ok && d > 0 && d < time.Millisecond { // in Go, what is left of an acquire timeout may be as short
		r.problem(v, fmt.Sprint(d, " is too short"), "write 1ms or more")
		return nil, false
	}
	return &d, ok
}

// lock reads one lock of a job.
func (r *reader) lock(v value, owner string, base lockSettings) (lockguard.Requirement, lockEntry) {
	requirement, entry := lockguard.Requirement{Owner: owner}, lockEntry{lockSettings: base, at: v}
	if !v.exists() {
		return requirement, entry
	}
	o, ok := r.section(v, &lockShape, &entry.lockSettings)
	if !ok {
		return requirement, entry
	}
	requirement = r.requirement(entry.lockSettings)
	requirement.Owner = owner
	r.fill(o, &requirement)
	if o.has("scope") {
		entry.scopeAt = o.get("scope")
		requirement.Scope, _ = r.scope(entry.scopeAt)
		entry.scope = requirement.Scope
		if s := r.scopes[entry.scope]; s.LockDelay != nil && !entry.delay.given {
			requirement.LockDelay = *s.LockDelay
		}
	} else {
		r.missing(v, "scope is missing", "write what the lock protects, for example scope: cluster/orders")
	}
	if at, exclusive := r.exclusive[entry.scope]; exclusive && entry.mode.v == priority.Shared {
		r.problem(entry.modeAt(v),
			fmt.Sprintf("shared mode for scope %s, which line %d says is exclusive", quote(entry.scope), at.node.Line),
			"write exclusive, or allow shared there")
	}
	r.checkLock(&entry.lockSettings)
	return requirement, entry
}

func (r *reader) message(v value, into *lockguard.Requirement) {
	text, ok := r.text(v, "write why the lock is held, for people")
	if n := len(text); ok && n > priority.MaxMessage {
		r.problem(v, fmt.Sprintf("the message takes %d bytes, more than %d", n, priority.MaxMessage), "write a shorter one")
	}
	into.Message = text
}

func (r *reader) class(v value, into *lockguard.Requirement) {
	text, ok := r.text(v, "write what the lock is counted under, for example tenant/{id}/billing")
	if ok && !r.refused(v, priority.CheckClass(text)) {
		into.Class = text
	}
}

func (r *reader) requirement(s lockSettings) lockguard.Requirement {
	requirement := lockguard.Requirement{
		Terms: priority.Terms{
			AcquireTimeout: s.acquire.v,
			CleanupTimeout: s.cleanup.v,
			Forceful:       s.forceful.v,
			LeaseTimeout:   s.lease.v,
			LockDelay:      s.delay.v,
			MinRuntime:     s.minimum.v,
			Mode:           s.mode.v,
			NeverPreempts:  s.priority.v.neverPreempts,
			PreemptDelta:   r.preemptDelta,
			Priority:       s.priority.v.level,
			WaitingTimeout: s.waiting.v,
		},
	}
	if requirement.NeverPreempts {
		requirement.PreemptDelta = 0 // it would mean nothing
	}
	return requirement
}

// checkLock looks at the settings of a lock together.
func (r *reader) checkLock(s *lockSettings) {
	r.checkTerms(s)
	lease := s.lease
	if !lease.bad && lease.v < r.session.v {
		what := fmt.Sprintf(
			"lease_timeout (%s%s) is shorter than zookeeper.session_timeout (%s%s), within which a dead holder is noticed",
			words.Duration(lease.v), lease.origin(), words.Duration(r.session.v), r.session.origin())
		instead := fmt.Sprintf("write %s or more, or a shorter session_timeout", words.Duration(r.session.v))
		switch {
		case lease.given:
			r.problem(lease.at, what, instead)
		case lease.from == builtin && !r.sessionReported:
			r.sessionReported = true
			r.problem(r.session.at, what, "write a shorter one, or a longer lease_timeout")
		}
	}
	r.adviseLock(*s)
}

// checkTerms says what priority.Terms says of the settings, each at its place. A setting that came from
// elsewhere is not this lock's mistake: only what is written here is reported.
func (r *reader) checkTerms(s *lockSettings) {
	terms := r.requirement(*s).Terms
	for _, err := range unjoin(terms.Validate()) {
		problem, ok := errors.AsType[*priority.RequestError](err)
		i := slices.IndexFunc(lockKeys, func(k key) bool { return ok && k.name == problem.Field })
		if i < 0 {
			continue // preempt_delta: reported where it is written
		}
		term := lockKeys[i].setting(s)
		at, given := term.place()
		what, instead := splitReason(problem.Reason)
		lease := "lease_timeout (" + words.Duration(terms.LeaseTimeout)
		switch {
		case strings.Contains(what, lease): // it compares two
			if s.lease.bad {
				continue
			}
			at, given = r.firstGiven(at, given, s.lease.at), given || s.lease.given
			what = strings.Replace(what, lease, lease+s.lease.origin(), 1)
			what = strings.Replace(what, ")", term.origin()+")", 1) // its own comes first
		case given:
			term.spoil()
			if v, _ := r.scalar(at, ""); v.expanded {
				what += " (from " + quote(v.written) + ")"
			}
		}
		if given {
			r.problem(at, what, instead)
		}
	}
}

// adviseLock warns of settings that do nothing beside others.
func (r *reader) adviseLock(s lockSettings) {
	if s.priority.v.neverPreempts && s.forceful.v && (s.priority.given || s.forceful.given) {
		r.warn(r.firstGiven(s.forceful.at, s.forceful.given, s.priority.at),
			"a class that never preempts takes nothing from a holder before its lease is over: forceful does little",
			"remove it")
	}
	r.adviseAcquire(s)
}

// adviseAcquire is about what comes to nothing because the request gives up before.
func (r *reader) adviseAcquire(s lockSettings) {
	acquire, waiting := s.acquire, s.waiting
	if acquire.bad || waiting.bad || acquire.v == nil {
		return
	}
	switch {
	case *acquire.v == 0 && s.forceful.v && (acquire.given || s.forceful.given):
		r.warn(r.firstGiven(acquire.at, acquire.given, s.forceful.at),
			"acquire_timeout 0 never preempts: forceful does nothing", "remove one of them")
	case *acquire.v == 0 && waiting.v != nil && (acquire.given || waiting.given):
		r.warn(r.firstGiven(acquire.at, acquire.given, waiting.at),
			"acquire_timeout 0 never preempts: waiting_timeout does nothing", "remove one of them")
	case *acquire.v > 0 && waiting.v != nil && *waiting.v > *acquire.v && (acquire.given || waiting.given):
		r.warn(r.firstGiven(waiting.at, waiting.given, acquire.at),
			fmt.Sprintf("waiting_timeout (%s%s) is longer than acquire_timeout (%s%s), which ends first",
				words.Duration(*waiting.v), waiting.origin(), words.Duration(*acquire.v), acquire.origin()),
			"lengthen the acquire_timeout or shorten the waiting_timeout")
	}
}

func (r *reader) firstGiven(a value, given bool, b value) value {
	if given {
		return a
	}
	return b
}

// problems counts what was found so far, warnings apart.
func (r *reader) problems() int {
	return len(r.findings) - r.warnings
}

// lockHints tells where the settings of a lock belong; where has a %s for the
// setting.
func lockHints(where string) map[string]string {
	hints := map[string]string{}
	for _, name := range lockShape.names() {
		hints[name] = fmt.Sprintf(where, name)
	}
	return hints
}
