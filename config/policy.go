package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

var (
	overlapWords   = choice[jobs.OverlapPolicy](jobs.OverlapPolicies()...)
	misfireWords   = choice[jobs.MisfirePolicy](jobs.MisfirePolicies()...)
	preemptedWords = choice[jobs.PreemptedThen](jobs.PreemptedSkip, jobs.PreemptedRequeue)
	howMany        = number[int](1, math.MaxInt32, "write how many, 1 or more")
	howManyRetries = number[int](0, math.MaxInt32, "write how many times, 0 or more")
)

var overlapShape = shape{
	name:    "overlap",
	example: "write a policy such as buffer-one, or {policy: buffer-all, max: 10}",
	keys: []key{
		to("policy", overlapWords, overlapWords.words[0],
			"What becomes of a tick that comes due while a run of the job still goes on.",
			func(o *jobs.Overlap) *jobs.OverlapPolicy { return &o.Policy }),
		to("max", howMany, fmt.Sprint(jobs.DefaultOverlapMax),
			"How many ticks wait (buffer-all), or how many runs go on at once (allow-all).",
			func(o *jobs.Overlap) *int { return &o.Max }),
	},
}

var misfireShape = shape{
	name:    "misfire",
	example: "write a policy such as once, or {policy: all, window: 1h}",
	keys: []key{
		to("policy", misfireWords, misfireWords.words[0], "Which ticks run late that were due while no daemon ran.",
			func(m *jobs.Misfire) *jobs.MisfirePolicy { return &m.Policy }),
		to("window", positive, words.Duration(jobs.DefaultMisfireWindow), "How old a tick may be to run late.",
			func(m *jobs.Misfire) *time.Duration { return &m.Window }),
		to("max", howMany, fmt.Sprint(jobs.DefaultMisfireMax),
			"How many ticks the policy all makes up for, the newest ones.", func(m *jobs.Misfire) *int { return &m.Max }),
	},
}

var dstShape = shape{
	name:    "dst",
	example: "write it like {gap: run-after, overlap: first}",
	keys: []key{
		to("gap", choice[jobs.GapPolicy](jobs.GapRunAfter, jobs.GapSkip), string(jobs.GapRunAfter),
			"A tick in the hour that is left out when the clocks go forward: as long after the gap's start, or not at all.",
			func(d *jobs.DST) *jobs.GapPolicy { return &d.Gap }),
		to("overlap", choice[jobs.FoldPolicy](jobs.FoldFirst, jobs.FoldBoth), string(jobs.FoldFirst),
			"A tick in the hour that comes twice when the clocks go back: the first time only, or both times.",
			func(d *jobs.DST) *jobs.FoldPolicy { return &d.Overlap }),
	},
	hints: map[string]string{"fold": `did you mean "overlap"?`},
}

var retryShape = shape{
	name:    "retry",
	example: "write how many times, for example 3, or {max: 3, initial: 10s}",
	keys: []key{
		to("max", howManyRetries, "0",
			"How many times a run that failed is tried again.", func(r *jobs.Retry) *int { return &r.Max }),
		to("initial", positive, words.Duration(jobs.DefaultRetryInitial),
			"The pause before the first retry; each further one is twice as long.",
			func(r *jobs.Retry) *time.Duration { return &r.Initial }),
		to("max_interval", positive, words.Duration(jobs.DefaultRetryMaxInterval), "The longest pause.",
			func(r *jobs.Retry) *time.Duration { return &r.MaxInterval }),
	},
	hints: map[string]string{
		"attempts": `did you mean "max"?`, "delay": `did you mean "initial"?`, "backoff": `did you mean "initial"?`,
	},
}

var onPreemptShape = shape{
	name:    "on_preempt",
	example: "write skip or requeue, or {then: requeue, max_preemptions: 3}",
	keys: []key{
		to("then", preemptedWords, preemptedWords.words[0],
			"What becomes of a run that was preempted: it is over, or waits for its locks again.",
			func(o *jobs.OnPreempt) *jobs.PreemptedThen { return &o.Then }),
		to("max_preemptions", number[int](1, math.MaxInt32, "write how often, 1 or more"),
			fmt.Sprint(jobs.DefaultMaxPreemptions), "How often requeue lets one run be preempted by priority.",
			func(o *jobs.OnPreempt) *int { return &o.MaxPreemptions }),
	},
}

const (
	blackoutExample     = `write it like {schedule: "0 22 24 12 *", for: 34h, reason: holidays}`
	blackoutListExample = `write it like [{schedule: "0 22 24 12 *", for: 34h}], or [] for none`
)

var blackoutShape = shape{
	name:    "a blackout",
	example: blackoutExample,
	keys: []key{
		needed(to("schedule", of[string]{kind: aSchedule, read: text(blackoutExample).read}, "",
			"When the window begins, like the schedule of a job.", func(b *jobs.Blackout) *string { return &b.Schedule }),
			"write when the window begins, for example "+`schedule: "0 22 24 12 *"`),
		to("timezone", aZone, "that of the job", "The time zone of the schedule.",
			func(b *jobs.Blackout) *string { return &b.TimeZone }),
		needed(by("for", aDuration, "", "How long the window lasts.", (*reader).blackoutFor),
			"write how long the window lasts, for example for: 34h"),
		to("reason", text("write why, for people"), "", "Why, for people: the log tells it with each tick that is skipped.",
			func(b *jobs.Blackout) *string { return &b.Reason }),
	},
	hints: map[string]string{
		"duration": `did you mean "for"?`, "from": `did you mean "schedule"?`, "start": `did you mean "schedule"?`,
		"message": `did you mean "reason"?`,
	},
}

// policyKeys are what defaults and jobs share.
var policyKeys = []key{
	inherits("timezone", of[string]{kind: aZone.kind, read: (*reader).ownZone}, defaultZone,
		"The time zone that schedules are read in.", func(p *policies) *setting[string] { return &p.zone }),
	inherits("dst", of[jobs.DST]{kind: like(&dstShape), read: (*reader).dst}, "",
		"What a schedule does on the days when the clocks change.", func(p *policies) *setting[jobs.DST] { return &p.dst }),
	inherits("misfire", of[jobs.Misfire]{kind: oneOf(misfireWords.kind, like(&misfireShape)), read: (*reader).misfire},
		misfireWords.words[0],
		"Ticks that were due while no daemon ran.", func(p *policies) *setting[jobs.Misfire] { return &p.misfire }),
	inherits("overlap", of[jobs.Overlap]{kind: oneOf(overlapWords.kind, like(&overlapShape)), read: (*reader).overlap},
		overlapWords.words[0], "Ticks that come due while a run of the job still goes on.",
		func(p *policies) *setting[jobs.Overlap] { return &p.overlap }),
	inherits("blackout", of[[]jobs.Blackout]{kind: listOf(like(&blackoutShape)), read: (*reader).blackouts}, "",
		"Windows in which no tick runs.", func(p *policies) *setting[[]jobs.Blackout] { return &p.blackouts }),
	inherits("jitter", notNegative, "0s", "Delays each tick by up to that much, the same in all daemons.",
		func(p *policies) *setting[time.Duration] { return &p.jitter }),
	inherits("timeout", of[time.Duration]{kind: aLimit.kind, read: (*reader).timeout}, unset,
		"How long one attempt may work; what it waits for its lock does not count.",
		func(p *policies) *setting[time.Duration] { return &p.timeout }),
	inherits("retry", of[jobs.Retry]{kind: oneOf(howManyRetries.kind, like(&retryShape)), read: (*reader).retry}, "0",
		"How often a run that failed is tried again.", func(p *policies) *setting[jobs.Retry] { return &p.retry }),
	inherits("on_preempt",
		of[jobs.OnPreempt]{kind: oneOf(preemptedWords.kind, like(&onPreemptShape)), read: (*reader).onPreempt},
		preemptedWords.words[0],
		"What becomes of a run that was preempted.", func(p *policies) *setting[jobs.OnPreempt] { return &p.onPreempt }),
	inherits("pause_after_failures",
		number[int](0, math.MaxInt32, "write after how many failures in a row, or 0 for never"), "0",
		"Pauses the job when that many runs in a row have failed; 0: never.",
		func(p *policies) *setting[int] { return &p.pauseAfter }),
	inherits("pause_for", notNegative, "0s", "How long such a pause lasts; 0: until an operator resumes the job.",
		func(p *policies) *setting[time.Duration] { return &p.pauseFor }),
	inherits("stuck_after", positive, jobs.DefaultStuckAfter,
		"How long work may go on after its cancellation until it is reported as stuck.",
		func(p *policies) *setting[time.Duration] { return &p.stuckAfter }),
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
	p := base
	r.zone = base.zone.v
	r.fill(o, &p)
	if p.zone.bad {
		p.zone.v = base.zone.v
	}
	if p.pauseFor.given && p.pauseFor.v > 0 && !p.pauseAfter.bad && p.pauseAfter.v == 0 {
		r.missing(p.pauseFor.at, "pause_for has no meaning without pause_after_failures",
			"write that as well, or remove pause_for")
	}
	return p
}

// ownZone reads the time zone of a job, which its blackouts have, too.
func (r *reader) ownZone(v value) (string, bool) {
	zone, ok := r.timezone(v)
	if ok {
		r.zone = zone
	}
	return zone, ok
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
	o, ok := wordOr(r, v, &overlapShape, overlapWords, &overlap, &overlap.Policy)
	return overlap, ok && r.vetted(v, o, "overlap", jobs.Job{Overlap: overlap})
}

func (r *reader) misfire(v value) (jobs.Misfire, bool) {
	var misfire jobs.Misfire
	o, ok := wordOr(r, v, &misfireShape, misfireWords, &misfire, &misfire.Policy)
	if v := o.get("window"); v.exists() && misfire.Policy == jobs.MisfireSkip {
		r.warn(v, "window does nothing with the policy skip", "remove it")
	}
	return misfire, ok && r.vetted(v, o, "misfire", jobs.Job{Misfire: misfire})
}

func (r *reader) dst(v value) (dst jobs.DST, ok bool) {
	_, ok = r.section(v, &dstShape, &dst)
	return dst, ok
}

// retry reads a number, or a mapping.
func (r *reader) retry(v value) (jobs.Retry, bool) {
	var retry jobs.Retry
	if r.isScalar(v) {
		retry.Max, _ = howManyRetries.read(r, v)
		return retry, true
	}
	o, ok := r.section(v, &retryShape, &retry)
	if !ok {
		return retry, false
	}
	if o.get("max_interval").exists() && retry.Initial == 0 && retry.MaxInterval < jobs.DefaultRetryInitial {
		retry.Initial = retry.MaxInterval // no pause is longer, not the first one either
	}
	return retry, r.vetted(v, o, "retry", jobs.Job{Retry: retry})
}

func (r *reader) onPreempt(v value) (jobs.OnPreempt, bool) {
	var on jobs.OnPreempt
	o, ok := wordOr(r, v, &onPreemptShape, preemptedWords, &on, &on.Then)
	return on, ok && r.vetted(v, o, "on_preempt", jobs.Job{OnPreempt: on})
}

// wordOr reads one of a few words, or the mapping that it is short for. The word is
// that of the first key of the mapping.
func wordOr[W ~string](r *reader, v value, s *shape, words of[W], into any, word *W) (o object, ok bool) {
	switch {
	case r.isScalar(v) && v.node.Tag != tagNull:
		*word, ok = words.read(r, v)
		return object{value: v, shape: s}, ok
	case r.isList(v):
		r.problem(v, "a list cannot stand here", s.example)
		return object{value: v, shape: s}, false
	}
	o, ok = r.section(v, s, into)
	return o, ok && (!o.has(s.keys[0].name) || *word != "")
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

// blackouts reads windows in which nothing runs.
func (r *reader) blackouts(v value) ([]jobs.Blackout, bool) {
	items, ok := r.items(v, blackoutListExample)
	if !ok {
		return nil, false
	}
	before := r.problems()
	var all []jobs.Blackout
	for _, item := range items {
		var b jobs.Blackout
		if o, ok := r.section(item, &blackoutShape, &b); ok {
			if b.Schedule != "" {
				probe := jobs.Blackout{Schedule: b.Schedule, TimeZone: b.TimeZone}
				_, err := scheduler.ParseBlackouts(jobs.Job{Name: "probe", TimeZone: r.zone, Blackouts: []jobs.Blackout{probe}})
				r.badSpec(o.get("schedule"), b.Schedule, err)
			}
			all = append(all, b)
		}
	}
	return all, r.problems() == before
}

func (r *reader) blackoutFor(v value, b *jobs.Blackout) {
	d, ok := r.positive(v)
	if !ok {
		return
	}
	b.For = d
	probe := jobs.Blackout{Schedule: "@daily", For: d}
	r.vetted(v, object{value: v}, "blackout[0]", jobs.Job{Blackouts: []jobs.Blackout{probe}})
}
