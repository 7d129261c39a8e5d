package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An OverlapPolicy says what becomes of a tick that comes due while a run of
// the job still goes on, in whatever daemon. The names are Temporal's.
type OverlapPolicy string

// The overlap policies.
const (
	OverlapSkip      OverlapPolicy = "skip"       // the tick is skipped (default)
	OverlapBufferOne OverlapPolicy = "buffer-one" // one tick waits for the end of the run; those after it are skipped
	// ticks wait in order, up to Overlap.Max; those after it are skipped
	OverlapBufferAll   OverlapPolicy = "buffer-all"
	OverlapCancelOther OverlapPolicy = "cancel-other" // the run is cancelled, and the tick runs when it has ended
	OverlapAllowAll    OverlapPolicy = "allow-all"    // runs go on beside each other, up to Overlap.Max
)

// OverlapPolicies returns all of them, the default first.
func OverlapPolicies() []string {
	return []string{
		string(OverlapSkip), string(OverlapBufferOne), string(OverlapBufferAll), string(OverlapCancelOther),
		string(OverlapAllowAll),
	}
}

// Overlap is an OverlapPolicy and its bound. The lock of a job is another
// matter: runs that overlap still wait for it in turn.
type Overlap struct {
	// Max bounds how many ticks wait (OverlapBufferAll) or how many runs go on
	// at once (OverlapAllowAll). Only for these two. Defaults to 10.
	Max int

	// Policy defaults to OverlapSkip.
	Policy OverlapPolicy
}

// A MisfirePolicy says what becomes of ticks that were due while no daemon
// could decide them, and that are older than the scheduler's Lateness.
type MisfirePolicy string

// The misfire policies. What is not run is recorded as missed.
const (
	MisfireOnce MisfirePolicy = "once" // the newest one within the window runs (default)
	MisfireSkip MisfirePolicy = "skip" // none runs
	MisfireAll  MisfirePolicy = "all"  // those within the window run, in order, at most Misfire.Max, the newest ones
)

// MisfirePolicies returns all of them, the default first.
func MisfirePolicies() []string {
	return []string{string(MisfireOnce), string(MisfireSkip), string(MisfireAll)}
}

// Misfire is a MisfirePolicy and its bounds.
type Misfire struct {
	// Max bounds how many ticks MisfireAll makes up for; only for it.
	// Defaults to 100.
	Max int

	// Policy defaults to MisfireOnce.
	Policy MisfirePolicy

	// Window is how old a tick may be to be made up for. Defaults to 10m.
	Window time.Duration
}

// A GapPolicy says what becomes of a tick in the hour that is left out when
// the clocks go forward.
type GapPolicy string

// The gap policies.
const (
	GapRunAfter GapPolicy = "run-after" // it is due as long after the gap's start as it would have been into it (default)
	GapSkip     GapPolicy = "skip"      // there is no such tick
)

// A FoldPolicy says what becomes of a tick in the hour that comes twice when
// the clocks go back.
type FoldPolicy string

// The fold policies.
const (
	FoldFirst FoldPolicy = "first" // it is due the first time only (default)
	FoldBoth  FoldPolicy = "both"  // it is due both times
)

// DST says what a schedule does on the days when the clocks change. It is
// about schedules that name an hour; those with a * in the hour or minute field
// go by elapsed time.
type DST struct {
	// Gap defaults to GapRunAfter.
	Gap GapPolicy

	// Overlap defaults to FoldFirst.
	Overlap FoldPolicy
}

// A Blackout is a window in which no tick of a job runs, such as a change
// freeze. A tick inside of it is recorded as skipped.
type Blackout struct {
	// For is how long the window lasts from each instant of Schedule: at least
	// a second, at most 366 days.
	For time.Duration

	// Reason is logged with each skip, for people.
	Reason string

	// Schedule says when the window begins, like that of a job: for example
	// "0 22 24 12 *".
	Schedule string

	// TimeZone is that of Schedule. Defaults to that of the job.
	TimeZone string
}

// MaxBlackout is the longest window of a Blackout.
const MaxBlackout = 366 * 24 * time.Hour

// Retry says how often, and when, a run that failed is tried again under the
// same tick. The lock is given back between two attempts. A preemption, a loss
// and a shutdown are no failures.
type Retry struct {
	// Initial is the pause before the first retry; each further one is twice as
	// long, a little more or less by chance. Defaults to 10s.
	Initial time.Duration

	// Max is how many times it is tried again. Defaults to 0: not at all.
	Max int

	// MaxInterval is the longest pause. Defaults to 5m.
	MaxInterval time.Duration
}

// A PreemptedThen says what becomes of a run that was preempted.
type PreemptedThen string

// What becomes of it.
const (
	PreemptedSkip    PreemptedThen = "skip"    // the run is over, as preempted (default)
	PreemptedRequeue PreemptedThen = "requeue" // it waits for its locks again and begins anew
)

// OnPreempt says what becomes of a run that was preempted, or that had to stop
// because its lease was over.
type OnPreempt struct {
	// MaxPreemptions is how often PreemptedRequeue lets a run be preempted by
	// priority: from then on only the end of its lease, or an operator, ends its
	// hold. Only for it. Defaults to 3.
	MaxPreemptions int

	// Then defaults to PreemptedSkip.
	Then PreemptedThen
}

// Defaults of the policies.
const (
	DefaultOverlapMax       = 10
	DefaultMisfireMax       = 100
	DefaultMisfireWindow    = 10 * time.Minute
	DefaultRetryInitial     = 10 * time.Second
	DefaultRetryMaxInterval = 5 * time.Minute
	DefaultMaxPreemptions   = 3
	DefaultStuckAfter       = 10 * time.Second
)

// WithDefaults returns j with its policies filled in.
func (j Job) WithDefaults() Job {
	set(&j.Overlap.Policy, OverlapSkip)
	if j.Overlap.bounded() {
		set(&j.Overlap.Max, DefaultOverlapMax)
	}
	set(&j.Misfire.Policy, MisfireOnce)
	set(&j.Misfire.Window, DefaultMisfireWindow)
	if j.Misfire.Policy == MisfireAll {
		set(&j.Misfire.Max, DefaultMisfireMax)
	}
	set(&j.DST.Gap, GapRunAfter)
	set(&j.DST.Overlap, FoldFirst)
	if j.Retry.Max > 0 {
		set(&j.Retry.Initial, DefaultRetryInitial)
		set(&j.Retry.MaxInterval, max(DefaultRetryMaxInterval, j.Retry.Initial))
	}
	set(&j.OnPreempt.Then, PreemptedSkip)
	if j.OnPreempt.Then == PreemptedRequeue {
		set(&j.OnPreempt.MaxPreemptions, DefaultMaxPreemptions)
	}
	set(&j.StuckAfter, DefaultStuckAfter)
	return j
}

func set[T comparable](v *T, without T) {
	var zero T
	if *v == zero {
		*v = without
	}
}

func (o Overlap) bounded() bool {
	return o.Policy == OverlapBufferAll || o.Policy == OverlapAllowAll
}

// refusePolicies reports what is wrong with the policies of j.
//
//nolint:cyclop,funlen // one check for each thing that can be wrong
func (j Job) refusePolicies(refuse func(field, format string, args ...any)) {
	word := func(field, is string, of ...string) {
		if is != "" && !slices.Contains(of, is) {
			refuse(field, "%q is unknown; write %s", is, strings.Join(of[:len(of)-1], ", ")+" or "+of[len(of)-1])
		}
	}
	notNegative := func(field string, d time.Duration) {
		if d < 0 {
			refuse(field, "%s is negative; write a duration such as 30s, or leave it out", d)
		}
	}
	count := func(field string, n int) {
		if n < 0 {
			refuse(field, "%d is negative; write a number, or leave it out", n)
		}
	}

	word("overlap.policy", string(j.Overlap.Policy), OverlapPolicies()...)
	count("overlap.max", j.Overlap.Max)
	if j.Overlap.Max > 0 && !j.Overlap.bounded() {
		refuse("overlap.max", "has no meaning for %s; it is for %s and %s", overlapOf(j), OverlapBufferAll, OverlapAllowAll)
	}
	if j.Overlap.Max > maxOverlap {
		refuse("overlap.max", "%d is more than %d; write a smaller bound", j.Overlap.Max, maxOverlap)
	}
	word("misfire.policy", string(j.Misfire.Policy), MisfirePolicies()...)
	notNegative("misfire.window", j.Misfire.Window)
	count("misfire.max", j.Misfire.Max)
	if j.Misfire.Max > 0 && j.Misfire.Policy != MisfireAll {
		refuse("misfire.max", "has no meaning unless the policy is %s; leave it out", MisfireAll)
	}
	if j.Misfire.Max > maxMisfire {
		refuse("misfire.max", "%d is more than %d; write a smaller bound", j.Misfire.Max, maxMisfire)
	}
	word("dst.gap", string(j.DST.Gap), string(GapRunAfter), string(GapSkip))
	word("dst.overlap", string(j.DST.Overlap), string(FoldFirst), string(FoldBoth))
	for i, b := range j.Blackouts {
		at := fmt.Sprintf("blackout[%d].", i)
		if b.Schedule == "" {
			refuse(at+"schedule", `is missing; write when the window begins, for example "0 22 24 12 *"`)
		}
		switch {
		case b.For < time.Second:
			refuse(at+"for", "%s is shorter than a second; write how long the window lasts", b.For)
		case b.For > MaxBlackout:
			refuse(at+"for", "%s is longer than a year; pause the job instead", b.For)
		}
	}
	notNegative("jitter", j.Jitter)
	notNegative("hold_at_least", j.HoldAtLeast)
	if j.HoldAtLeast > 0 && len(j.Requirements) == 0 {
		refuse("hold_at_least", "there is no lock to hold; write its locks, or leave it out")
	}
	count("retry.max", j.Retry.Max)
	notNegative("retry.initial", j.Retry.Initial)
	notNegative("retry.max_interval", j.Retry.MaxInterval)
	if j.Retry.Max == 0 && (j.Retry.Initial > 0 || j.Retry.MaxInterval > 0) {
		refuse("retry.max", "is 0, so the pauses have no meaning; write how many times to try again")
	}
	if j.Retry.MaxInterval > 0 && j.Retry.Initial > j.Retry.MaxInterval {
		refuse("retry.initial", "initial (%s) is longer than max_interval (%s); shorten the one or lengthen the other",
			j.Retry.Initial, j.Retry.MaxInterval)
	}
	word("on_preempt.then", string(j.OnPreempt.Then), string(PreemptedSkip), string(PreemptedRequeue))
	count("on_preempt.max_preemptions", j.OnPreempt.MaxPreemptions)
	if j.OnPreempt.MaxPreemptions > 0 && j.OnPreempt.Then != PreemptedRequeue {
		refuse("on_preempt.max_preemptions", "has no meaning unless then is %s; leave it out", PreemptedRequeue)
	}
	if j.OnPreempt.Then == PreemptedRequeue && len(j.Requirements) == 0 {
		refuse("on_preempt", "there is no lock that could be preempted; write the job's locks, or leave it out")
	}
	count("pause_after_failures", j.PauseAfterFailures)
	notNegative("pause_for", j.PauseFor)
	if j.PauseFor > 0 && j.PauseAfterFailures == 0 {
		refuse("pause_for", "has no meaning without pause_after_failures; write that, or leave it out")
	}
	notNegative("stuck_after", j.StuckAfter)
}

// What the ledger of a job has room for.
const (
	maxOverlap = 100
	maxMisfire = 1000
)

func overlapOf(j Job) OverlapPolicy {
	if j.Overlap.Policy == "" {
		return OverlapSkip
	}
	return j.Overlap.Policy
}
