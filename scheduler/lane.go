package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A lane decides the ticks of one job, one by one, in order: the next one only
// when this one is claimed, taken or skipped. Runs go on beside it.
type lane struct {
	s        *Scheduler
	job      jobs.Job
	schedule Schedule

	mu    sync.Mutex
	queue []time.Time // due, not decided
	stats JobStats
	owned context.Context // while it lives, the job is this daemon's; nil without a spread

	wake chan struct{} // the queue has something

	// Of the loop alone.
	joined  bool   // ticks between the ledger's last one and our first are decided
	current *run   // the last run here, until it is recorded
	pending []skip // to be recorded before the next claim
	warned  bool   // that a clock is ahead
}

// A skip that the ledger has not been told yet.
type skip struct {
	instant time.Time
	reason  SkipReason
	detail  error
	told    bool // counted and logged
}

// maxPending bounds how many of them are kept for the ledger: in a long outage
// it never hears of the oldest.
const maxPending = 1000

func newLane(s *Scheduler, job jobs.Job, schedule Schedule) *lane {
	return &lane{
		s: s, job: job, schedule: schedule, wake: make(chan struct{}, 1),
		stats: JobStats{Skipped: make(map[SkipReason]uint64)},
	}
}

// push takes instants that have come due. It never blocks.
func (l *lane) push(instants []time.Time) {
	l.mu.Lock()
	l.queue = append(l.queue, instants...)
	l.mu.Unlock()
	l.poke()
}

// poke makes the loop look.
func (l *lane) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) dropped(after, before time.Time) {
	l.s.log.Error("the clock went too far forward: ticks in between are neither run nor recorded",
		"job", l.job.Name, "after", after.UTC(), "before", before.UTC())
}

// pop takes the oldest tick; newer tells that there is another one.
func (l *lane) pop() (tick time.Time, newer, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return tick, false, false
	}
	tick, l.queue = l.queue[0], l.queue[1:]
	return tick, len(l.queue) > 0, true
}

func (l *lane) loop() {
	const again = time.Second
	retry := time.NewTimer(again)
	defer retry.Stop()
	for {
		var later <-chan time.Time
		if len(l.pending) > 0 {
			retry.Reset(again)
			later = retry.C
		}
		select {
		case <-l.wake:
		case <-later:
		case <-l.s.firing.Done():
		}
		for !l.s.isDraining() && l.mine() {
			tick, newer, ok := l.pop()
			if !ok {
				break
			}
			l.decide(tick, newer)
		}
		if !l.mine() {
			l.shed(maxBacklog)
		}
		if l.joined && len(l.pending) > 0 {
			ctx, cancel := l.s.until(l.s.now().Add(drainClaim))
			_ = l.flush(ctx) // else later
			cancel()
		}
		if l.s.isDraining() {
			l.giveUp()
			return
		}
	}
}

// giveUp ends the ticks that are left when the scheduler stops. The ledger is
// not told: the other daemons decide them.
func (l *lane) giveUp() {
	if !l.mine() {
		l.shed(0)
	}
	for tick, _, ok := l.pop(); ok; tick, _, ok = l.pop() {
		l.tellSkip("", tick, SkipDraining, nil)
	}
	for _, p := range l.pending {
		if !p.told {
			l.tellSkip("", p.instant, p.reason, p.detail)
		}
	}
}

// decide ends in exactly one of: a run begins, taken, skipped.
func (l *lane) decide(tick time.Time, newer bool) {
	if newer && l.s.now().After(tick.Add(l.s.cfg.Lateness)) {
		l.postpone(skip{instant: tick, reason: SkipMissed})
		return
	}
	ctx, cancel := l.s.until(l.deadline(tick))
	defer cancel()
	if err := l.join(ctx, tick); err != nil {
		l.undecided(tick, err)
		return
	}
	if err := l.flush(ctx); err != nil {
		l.undecided(tick, err)
		return
	}
	if reason, detail := l.inTheWay(ctx, tick); reason != "" {
		l.postpone(skip{instant: tick, reason: reason, detail: detail})
		_ = l.flush(ctx) // else later
		return
	}
	claim, err := l.claim(ctx, tick, newer)
	switch {
	case err != nil:
		l.undecided(tick, err)
	case claim.Verdict == recipes.TickClaimed:
		l.start(claim)
	case claim.Verdict == recipes.TickOverlap:
		l.tellSkip("", tick, SkipOverlap, &OverlapError{Run: claim.Run})
	case claim.Verdict == recipes.TickPaused:
		l.tellSkip("", tick, recipes.TickReasonPaused, nil)
	default:
		l.taken(tick)
		l.checkAhead(claim.Last)
	}
}

// deadline is when a tick that is not decided by then is given up.
func (l *lane) deadline(tick time.Time) time.Time {
	next := l.schedule.Next(tick)
	if late := tick.Add(l.s.cfg.Lateness); late.After(next) {
		return late
	}
	return next
}

// join decides, before our first tick, the ones just before it, back to the
// last one that the ledger knows: by claiming ours we would take them from a
// daemon whose clock is behind. Likewise a tick is not lost because it was due
// while the only daemon was restarted.
func (l *lane) join(ctx context.Context, first time.Time) error {
	if l.joined {
		return nil
	}
	skipped := l.pending // none of these is told to the ledger before we have joined
	if len(skipped) > 0 {
		first = skipped[0].instant
	}
	after, err := l.begin(ctx, first)
	if err != nil {
		return err
	}
	l.joined = true
	from := first.Add(-l.s.cfg.Lateness)
	if after.After(from) {
		from = after
	} else if l.schedule.Next(after).Before(from) {
		l.s.log.Warn("no daemon has decided the ticks of this job for a while; they are not made up for",
			"job", l.job.Name, "after", after, "before", first.UTC())
	}
	l.pending = nil
	for tick := l.schedule.Next(from); tick.Before(first); tick = l.schedule.Next(tick) {
		l.decide(tick, true)
	}
	l.pending = append(l.pending, skipped...)
	return nil
}

// begin asks the ledger until it answers or ctx ends.
func (l *lane) begin(ctx context.Context, first time.Time) (after time.Time, err error) {
	for pause := newBackoff(); ; {
		after, err = l.s.cfg.Ledger.Begin(ctx, l.job.Name, first)
		if err == nil || !pause.wait(ctx) {
			return after, err
		}
	}
}

// errUnrecorded is why a tick is not decided whose previous run has ended here.
var errUnrecorded = errors.New("ZooKeeper has not confirmed the end of the previous run")

// inTheWay waits until no run of ours is in the way of tick, and returns ""
// or why the tick has to be skipped. A run that began when the tick was due, or
// later, is a backlog that is being worked off: it is waited for, as is the
// record of one that has ended.
func (l *lane) inTheWay(ctx context.Context, tick time.Time) (SkipReason, error) {
	r := l.current
	if r == nil {
		return "", nil
	}
	reason, detail := SkipOverlap, error(&OverlapError{Run: r.tick})
	select {
	case <-r.workDone:
		reason, detail = SkipUndecided, errUnrecorded
	default:
		if tick.After(r.began.Add(l.moment(tick))) {
			return reason, detail
		}
	}
	select {
	case <-r.done:
		l.current = nil
		return "", nil
	case <-ctx.Done():
		return reason, detail
	}
}

// claim asks the ledger until it answers or ctx ends. It waits for the run of
// another daemon that is in the way of tick for a moment, for it may have begun
// just now: that daemon may work off a backlog, or its clock be behind. A tick
// of our own backlog waits for it until it is too late.
func (l *lane) claim(ctx context.Context, tick time.Time, backlog bool) (claim recipes.TickClaim, err error) {
	patient := l.s.now().Add(l.moment(tick))
	for pause := newBackoff(); ; {
		on := recipes.SkipOverlap
		if backlog || l.s.now().Before(patient) {
			on = recipes.TellOverlap
		}
		claim, err = l.s.cfg.Ledger.Claim(ctx, l.job.Name, tick, recipes.TickAsk{OnOverlap: on})
		told := err == nil && claim.Verdict == recipes.TickOverlap && on == recipes.TellOverlap
		if err == nil && !told {
			return claim, nil
		}
		if !pause.wait(ctx) {
			if told {
				err = &OverlapError{Run: claim.Run}
			}
			return recipes.TickClaim{}, err
		}
	}
}

// moment is what counts as just now when ticks come as they do after tick.
func (l *lane) moment(tick time.Time) time.Duration {
	return min(l.schedule.Next(tick).Sub(tick)/10, time.Second)
}

func (l *lane) taken(tick time.Time) {
	l.count(func(s *JobStats) { s.Taken++ })
	l.s.log.Debug("tick taken by another daemon", "job", l.job.Name, "instant", tick.UTC())
}

// checkAhead looks for a clock that was so far ahead that the job stands still.
func (l *lane) checkAhead(last time.Time) {
	ahead := last.Sub(l.s.now())
	if ahead < time.Minute {
		l.warned = false
		return
	}
	if !l.warned {
		l.s.log.Error("no tick of this job can run for a while: a daemon whose clock was ahead has claimed a later one",
			"job", l.job.Name, "until", last, "ahead", ahead.Round(time.Second))
	}
	l.warned = true
}

func (l *lane) undecided(tick time.Time, err error) {
	if l.s.isDraining() {
		l.tellSkip("", tick, SkipDraining, err)
		return
	}
	reason := SkipUndecided
	if errors.As(err, new(*OverlapError)) {
		reason = SkipOverlap
	}
	l.tellSkip("", tick, reason, err)
	l.postpone(skip{instant: tick, reason: reason, told: true})
}

func (l *lane) postpone(p skip) {
	if len(l.pending) == maxPending {
		if oldest := l.pending[0]; !oldest.told {
			l.tellSkip("", oldest.instant, oldest.reason, oldest.detail)
		}
		l.pending = l.pending[1:]
	}
	l.pending = append(l.pending, p)
}

// flush tells the ledger of skipped ticks, in order, until it has answered or
// ctx ends.
func (l *lane) flush(ctx context.Context) error {
	for pause := newBackoff(); len(l.pending) > 0; {
		reason := l.pending[0].reason
		n := slices.IndexFunc(l.pending, func(p skip) bool { return p.reason != reason })
		if n < 0 {
			n = len(l.pending)
		}
		instants := make([]time.Time, n)
		for i, p := range l.pending[:n] {
			instants[i] = p.instant
		}
		recorded, err := l.s.cfg.Ledger.RecordSkip(ctx, l.job.Name, string(reason), instants...)
		if err != nil {
			if !pause.wait(ctx) {
				return err
			}
			continue
		}
		// The older ones were taken by others, if any were.
		for i, p := range l.pending[:n] {
			switch {
			case p.told:
			case i < n-recorded:
				l.taken(p.instant)
			default:
				l.tellSkip("", p.instant, p.reason, p.detail)
			}
		}
		l.pending = l.pending[n:]
	}
	return nil
}

// start begins the run of a claimed tick.
func (l *lane) start(claim recipes.TickClaim) {
	for _, dead := range claim.Interrupted {
		l.s.log.Warn("previous run was interrupted: its process or its session ended",
			"job", l.job.Name, "instant", dead.Instant, "owner", dead.Owner, "host", dead.Host, "pid", dead.PID)
	}
	s := l.s
	s.mu.Lock()
	r := s.beginLocked(s.work, l)
	s.mu.Unlock()
	r.tick = claim.Run
	l.current = r
	go func() {
		defer s.end(r)
		_ = r.do(new(l.patience(claim.Run.Instant))) // counted and logged
	}()
}

// patience is how long a tick waits for its lock: until just before the next
// one, so that its end is recorded by then.
func (l *lane) patience(tick time.Time) time.Duration {
	if l.s.isDraining() {
		return 0
	}
	now := l.s.now()
	if now.After(tick) {
		tick = now
	}
	next := l.schedule.Next(tick)
	lead := l.moment(next)
	return max(next.Sub(now)-lead, lead)
}

// requirements returns the locks that the job needs. patience is the acquire
// timeout if none of them has one: the shortest counts for all.
func (l *lane) requirements(patience *time.Duration) []lockguard.Requirement {
	all := l.job.Owned()
	if slices.ContainsFunc(all, func(r lockguard.Requirement) bool { return r.AcquireTimeout != nil }) {
		return all
	}
	for i := range all {
		all[i].AcquireTimeout = patience
	}
	return all
}

// blamed returns the lock that err is about, else the first that the job needs;
// it has one.
func (l *lane) blamed(err error) lockguard.Requirement {
	all := l.job.Owned()
	if i := slices.IndexFunc(all, func(r lockguard.Requirement) bool { return r.Scope == scopeOf(err) }); i >= 0 {
		return all[i]
	}
	return all[0]
}

// scopeOf returns the scope of a lock that was not acquired, or that had to be
// given up; "" when err says nothing of one.
func scopeOf(err error) string {
	if e, ok := errors.AsType[*recipes.NotAcquiredError](err); ok {
		return e.Scope
	}
	if e, ok := errors.AsType[*recipes.CleanupPendingError](err); ok {
		return e.Scope
	}
	if e, ok := errors.AsType[*recipes.EvictedError](err); ok {
		return e.Scope
	}
	if e, ok := errors.AsType[*lockguard.LostError](err); ok {
		return e.Scope
	}
	if e, ok := errors.AsType[*lockguard.PreemptedError](err); ok {
		return e.Scope
	}
	if e, ok := errors.AsType[*lockguard.LeaseExpiredError](err); ok {
		return e.Scope
	}
	return ""
}

// backoff paces what is tried again.
type backoff struct{ pause time.Duration }

func newBackoff() *backoff { return &backoff{pause: 50 * time.Millisecond} }

// maxPause is the longest that a backoff pauses.
const maxPause = 2 * time.Second

// wait pauses; it reports false when ctx ends first.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.pause/2 + rand.N(b.pause/2))
	defer timer.Stop()
	b.pause = min(2*b.pause, maxPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
