package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

var (
	overlapWords   = jobs.OverlapPolicies()
	misfireWords   = jobs.MisfirePolicies()
	gapWords       = []string{string(jobs.GapRunAfter), string(jobs.GapSkip)}
	foldWords      = []string{string(jobs.FoldFirst), string(jobs.FoldBoth)}
	preemptedWords = []string{string(jobs.PreemptedSkip), string(jobs.PreemptedRequeue)}
)

var overlapShape = shape{
	name:    "overlap",
	example: "write a policy such as buffer-one, or {policy: buffer-all, max: 10}",
	keys: []key{
		{"policy", word(overlapWords...), overlapWords[0], "What becomes of a tick that comes due while a run of the job still goes on."},
		{"max", wholeNumber(1, math.MaxInt32), fmt.Sprint(jobs.DefaultOverlapMax), "How many ticks wait (buffer-all), or how many runs go on at once (allow-all)."},
	},
}

var misfireShape = shape{
	name:    "misfire",
	example: "write a policy such as once, or {policy: all, window: 1h}",
	keys: []key{
		{"policy", word(misfireWords...), misfireWords[0], "Which ticks run late that were due while no daemon ran."},
		{"window", aDuration, formatDuration(jobs.DefaultMisfireWindow), "How old a tick may be to run late."},
		{"max", wholeNumber(1, math.MaxInt32), fmt.Sprint(jobs.DefaultMisfireMax), "How many ticks the policy all makes up for, the newest ones."},
	},
}

var dstShape = shape{
	name:    "dst",
	example: "write it like {gap: run-after, overlap: first}",
	keys: []key{
		{"gap", word(gapWords...), gapWords[0], "A tick in the hour that is left out when the clocks go forward: as long after the gap's start, or not at all."},
		{"overlap", word(foldWords...), foldWords[0], "A tick in the hour that comes twice when the clocks go back: the first time only, or both times."},
	},
	hints: map[string]string{"fold": `did you mean "overlap"?`},
}

var retryShape = shape{
	name:    "retry",
	example: "write how many times, for example 3, or {max: 3, initial: 10s}",
	keys: []key{
		{"max", wholeNumber(0, math.MaxInt32), "0", "How many times a run that failed is tried again."},
		{"initial", aDuration, formatDuration(jobs.DefaultRetryInitial), "The pause before the first retry; each further one is twice as long."},
		{"max_interval", aDuration, formatDuration(jobs.DefaultRetryMaxInterval), "The longest pause."},
	},
	hints: map[string]string{"attempts": `did you mean "max"?`, "delay": `did you mean "initial"?`, "backoff": `did you mean "initial"?`},
}

var onPreemptShape = shape{
	name:    "on_preempt",
	example: "write skip or requeue, or {then: requeue, max_preemptions: 3}",
	keys: []key{
		{"then", word(preemptedWords...), preemptedWords[0], "What becomes of a run that was preempted: it is over, or waits for its locks again."},
		{"max_preemptions", wholeNumber(1, math.MaxInt32), fmt.Sprint(jobs.DefaultMaxPreemptions), "How often requeue lets one run be preempted by priority."},
	},
}

var blackoutShape = shape{
	name:    "a blackout",
	example: `write it like {schedule: "0 22 24 12 *", for: 34h, reason: holidays}`,
	keys: []key{
		{"schedule", aSchedule, "", "When the window begins, like the schedule of a job."},
		{"timezone", aZone, "that of the job", "The time zone of the schedule."},
		{"for", aDuration, "", "How long the window lasts."},
		{"reason", aText, "", "Why, for people: the log tells it with each tick that is skipped."},
	},
	must:  []string{"schedule", "for"},
	hints: map[string]string{"duration": `did you mean "for"?`, "from": `did you mean "schedule"?`, "start": `did you mean "schedule"?`, "message": `did you mean "reason"?`},
}

// policyKeys are what defaults and jobs share.
var policyKeys = []key{
	{"timezone", aZone, defaultZone, "The time zone that schedules are read in."},
	{"dst", like(&dstShape), "", "What a schedule does on the days when the clocks change."},
	{"misfire", oneOf(word(misfireWords...), like(&misfireShape)), misfireWords[0], "Ticks that were due while no daemon ran."},
	{"overlap", oneOf(word(overlapWords...), like(&overlapShape)), overlapWords[0], "Ticks that come due while a run of the job still goes on."},
	{"blackout", listOf(like(&blackoutShape)), "", "Windows in which no tick runs."},
	{"jitter", aDuration, "0s", "Delays each tick by up to that much, the same in all daemons."},
	{"timeout", aLimit, unset, "How long one attempt may work; what it waits for its lock does not count."},
	{"retry", oneOf(wholeNumber(0, math.MaxInt32), like(&retryShape)), "0", "How often a run that failed is tried again."},
	{"on_preempt", oneOf(word(preemptedWords...), like(&onPreemptShape)), preemptedWords[0], "What becomes of a run that was preempted."},
	{"pause_after_failures", wholeNumber(0, math.MaxInt32), "0", "Pauses the job when that many runs in a row have failed; 0: never."},
	{"pause_for", aDuration, "0s", "How long such a pause lasts; 0: until somebody resumes the job."},
	{"stuck_after", aDuration, formatDuration(jobs.DefaultStuckAfter), "How long work may go on after it was told to go until it is reported as stuck."},
}

// policies are the settings that defaults and jobs share, each with where it
// comes from. One that a job writes takes the place of the default as a whole.
type policies struct {
	zone       setting[string]
	dst        setting[jobs.DST]
	misfire    setting[jobs.Misfire]
	overlap    setting[jobs.Overlap]
	blackouts  setting[[]jobs.Blackout]
	jitter     setting[time.Duration]
	timeout    setting[time.Duration]
	retry      setting[jobs.Retry]
	onPreempt  setting[jobs.OnPreempt]
	pauseAfter setting[int]
	pauseFor   setting[time.Duration]
	stuckAfter setting[time.Duration]
}

// policies reads what o says; base is what holds otherwise.
func (r *reader) policies(o object, base policies) policies {
	p := policies{
		zone:       field(o, "timezone", base.zone, r.timezone),
		dst:        field(o, "dst", base.dst, r.dst),
		misfire:    field(o, "misfire", base.misfire, r.misfire),
		overlap:    field(o, "overlap", base.overlap, r.overlap),
		jitter:     field(o, "jitter", base.jitter, r.notNegative),
		timeout:    field(o, "timeout", base.timeout, r.timeout),
		retry:      field(o, "retry", base.retry, r.retry),
		onPreempt:  field(o, "on_preempt", base.onPreempt, r.onPreempt),
		pauseAfter: field(o, "pause_after_failures", base.pauseAfter, r.failures),
		pauseFor:   field(o, "pause_for", base.pauseFor, r.notNegative),
		stuckAfter: field(o, "stuck_after", base.stuckAfter, r.positive),
	}
	if p.zone.bad {
		p.zone.v = base.zone.v
	}
	p.blackouts = field(o, "blackout", base.blackouts, func(v value) ([]jobs.Blackout, bool) { return r.blackouts(v, p.zone.v) })
	if p.pauseFor.given && p.pauseFor.v > 0 && !p.pauseAfter.bad && p.pauseAfter.v == 0 {
		r.missing(p.pauseFor.at, "pause_for has no meaning without pause_after_failures", "write that as well, or remove pause_for")
	}
	return p
}

// inherited returns the policies of defaults as a job gets them.
func (p policies) inherited() policies {
	const from = "from defaults"
	return policies{
		zone: p.zone.inherited(from), dst: p.dst.inherited(from), misfire: p.misfire.inherited(from), overlap: p.overlap.inherited(from),
		blackouts: p.blackouts.inherited(from), jitter: p.jitter.inherited(from), timeout: p.timeout.inherited(from), retry: p.retry.inherited(from),
		onPreempt: p.onPreempt.inherited(from), pauseAfter: p.pauseAfter.inherited(from), pauseFor: p.pauseFor.inherited(from),
		stuckAfter: p.stuckAfter.inherited(from),
	}
}

// apply writes the policies into a job. What it inherits and has no use for
// is left out.
func (p policies) apply(job *jobs.Job, locks bool) {
	job.TimeZone = p.zone.v
	job.DST, job.Misfire, job.Overlap = p.dst.v, p.misfire.v, p.overlap.v
	job.Blackouts, job.Jitter, job.Timeout = slices.Clone(p.blackouts.v), p.jitter.v, p.timeout.v
	job.Retry, job.PauseAfterFailures, job.StuckAfter = p.retry.v, p.pauseAfter.v, p.stuckAfter.v
	if locks || p.onPreempt.given {
		job.OnPreempt = p.onPreempt.v
	}
	if p.pauseAfter.v > 0 {
		job.PauseFor = p.pauseFor.v
	}
}

func (r *reader) overlap(v value) (jobs.Overlap, bool) {
	var overlap jobs.Overlap
	o, short, ok := r.wordOr(v, overlapShape, overlapWords)
	overlap.Policy = jobs.OverlapPolicy(short)
	if v := o.get("policy"); v.exists() {
		name, fine := r.word(v, overlapWords...)
		overlap.Policy, ok = jobs.OverlapPolicy(name), ok && fine
	}
	if v := o.get("max"); v.exists() {
		overlap.Max = int(r.between(v, 1, math.MaxInt32, "write how many, 1 or more"))
	}
	return overlap, ok && r.vetted(v, o, "overlap", jobs.Job{Overlap: overlap})
}

func (r *reader) misfire(v value) (jobs.Misfire, bool) {
	var misfire jobs.Misfire
	o, short, ok := r.wordOr(v, misfireShape, misfireWords)
	misfire.Policy = jobs.MisfirePolicy(short)
	if v := o.get("policy"); v.exists() {
		name, fine := r.word(v, misfireWords...)
		misfire.Policy, ok = jobs.MisfirePolicy(name), ok && fine
	}
	if v := o.get("window"); v.exists() {
		misfire.Window, _ = r.positive(v)
		if misfire.Policy == jobs.MisfireSkip {
			r.warn(v, "window does nothing with the policy skip", "remove it")
		}
	}
	if v := o.get("max"); v.exists() {
		misfire.Max = int(r.between(v, 1, math.MaxInt32, "write how many, 1 or more"))
	}
	return misfire, ok && r.vetted(v, o, "misfire", jobs.Job{Misfire: misfire})
}

func (r *reader) dst(v value) (jobs.DST, bool) {
	var dst jobs.DST
	o, ok := r.optional(v, dstShape)
	if !ok {
		return dst, false
	}
	if v := o.get("gap"); v.exists() {
		name, _ := r.word(v, gapWords...)
		dst.Gap = jobs.GapPolicy(name)
	}
	if v := o.get("overlap"); v.exists() {
		name, _ := r.word(v, foldWords...)
		dst.Overlap = jobs.FoldPolicy(name)
	}
	return dst, true
}

// retry reads a number, or a mapping.
func (r *reader) retry(v value) (jobs.Retry, bool) {
	const instead = "write how many times, 0 or more"
	var retry jobs.Retry
	if r.isScalar(v) {
		retry.Max = int(r.between(v, 0, math.MaxInt32, instead))
		return retry, true
	}
	o, ok := r.optional(v, retryShape)
	if !ok {
		return retry, false
	}
	if v := o.get("max"); v.exists() {
		retry.Max = int(r.between(v, 0, math.MaxInt32, instead))
	}
	if v := o.get("initial"); v.exists() {
		retry.Initial, _ = r.positive(v)
	}
	if v := o.get("max_interval"); v.exists() {
		retry.MaxInterval, _ = r.positive(v)
		if retry.Initial == 0 && retry.MaxInterval < jobs.DefaultRetryInitial {
			retry.Initial = retry.MaxInterval // no pause is longer, not the first one either
		}
	}
	return retry, r.vetted(v, o, "retry", jobs.Job{Retry: retry})
}

func (r *reader) onPreempt(v value) (jobs.OnPreempt, bool) {
	var on jobs.OnPreempt
	o, short, ok := r.wordOr(v, onPreemptShape, preemptedWords)
	on.Then = jobs.PreemptedThen(short)
	if v := o.get("then"); v.exists() {
		name, fine := r.word(v, preemptedWords...)
		on.Then, ok = jobs.PreemptedThen(name), ok && fine
	}
	if v := o.get("max_preemptions"); v.exists() {
		on.MaxPreemptions = int(r.between(v, 1, math.MaxInt32, "write how often, 1 or more"))
	}
	return on, ok && r.vetted(v, o, "on_preempt", jobs.Job{OnPreempt: on})
}

// wordOr reads one of a few words, or the mapping that it is short for.
func (r *reader) wordOr(v value, s shape, words []string) (o object, short string, ok bool) {
	switch {
	case r.isScalar(v) && v.node.Tag != tagNull:
		short, ok = r.word(v, words...)
		return object{value: v}, short, ok
	case r.isList(v):
		r.problem(v, "a list cannot stand here", s.example)
		return object{value: v}, "", false
	}
	o, ok = r.optional(v, s)
	return o, "", ok
}

// vetted lets package jobs judge a policy, at the keys that it names.
func (r *reader) vetted(v value, o object, name string, probe jobs.Job) bool {
	probe.Name, probe.Work = "probe", jobs.Func(nil)
	probe.Requirements = []lockguard.Requirement{{Scope: "probe"}}
	fine := true
	for _, err := range unjoin(probe.Validate()) {
		of, about := strings.CutPrefix(refusedField(err), name)
		if !about || of != "" && of[0] != '.' {
			continue
		}
		at := v
		if key := strings.TrimPrefix(of, "."); o.get(key).exists() {
			at = o.get(key)
		}
		r.refused(at, err)
		fine = false
	}
	return fine
}

// timeout reads how long an attempt may work; the word unset takes back what
// defaults say.
func (r *reader) timeout(v value) (time.Duration, bool) {
	if r.isScalar(v) && v.node.Value == unset {
		return 0, true
	}
	return r.positive(v)
}

func (r *reader) failures(v value) (int, bool) {
	before := r.problems()
	n := r.between(v, 0, math.MaxInt32, "write after how many failures in a row, or 0 for never")
	return int(n), r.problems() == before
}

const blackoutListExample = `write it like [{schedule: "0 22 24 12 *", for: 34h}], or [] for none`

// blackouts reads windows in which nothing runs; zone is that of the job.
func (r *reader) blackouts(v value, zone string) ([]jobs.Blackout, bool) {
	items, ok := r.items(v, blackoutListExample)
	if !ok {
		return nil, false
	}
	before := r.problems()
	var all []jobs.Blackout
	for _, item := range items {
		if o, ok := r.optional(item, blackoutShape); ok {
			all = append(all, r.blackout(o, zone))
		}
	}
	return all, r.problems() == before
}

func (r *reader) blackout(o object, zone string) jobs.Blackout {
	var b jobs.Blackout
	if v := o.get("timezone"); v.exists() {
		b.TimeZone, _ = r.timezone(v)
	}
	if v := o.get("schedule"); o.has("schedule") {
		if spec, ok := r.text(v, blackoutShape.example); ok {
			b.Schedule = spec
			_, err := scheduler.ParseBlackouts(jobs.Job{Name: "probe", TimeZone: zone, Blackouts: []jobs.Blackout{b}})
			r.badSpec(v, spec, err)
		}
	} else {
		r.missing(o.value, "schedule is missing", "write when the window begins, for example "+`schedule: "0 22 24 12 *"`)
	}
	if v := o.get("for"); o.has("for") {
		if d, ok := r.positive(v); ok {
			b.For = d
			probe := jobs.Blackout{Schedule: "@daily", For: d}
			r.vetted(v, object{value: v}, "blackout[0]", jobs.Job{Blackouts: []jobs.Blackout{probe}})
		}
	} else {
		r.missing(o.value, "for is missing", "write how long the window lasts, for example for: 34h")
	}
	if v := o.get("reason"); v.exists() {
		b.Reason, _ = r.text(v, "write why, for people")
	}
	return b
}
