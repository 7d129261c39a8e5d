package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// decide ends in exactly one of: a run begins, it waits for the end of one,
// taken, skipped. newer is how many newer ones are due as well.
func (l *lane) decide(tick time.Time, newer int) {
	def := l.definition()
	l.skipGaps(def, tick)
	if l.isMissed(def, tick, newer) {
		l.postpone(skip{instant: tick, reason: SkipMissed})
		return
	}
	ctx, cancel := l.s.until(l.deadline(def, tick))
	defer cancel()
	first, err := l.begin(ctx, def, tick)
	if err != nil {
		l.undecided(tick, err)
		return
	}
	if !first {
		return // there are older ones
	}
	if err := l.flush(ctx, tick); err != nil {
		l.undecided(tick, err)
		return
	}
	if b, ok := def.blackouts.Cover(tick); ok {
		l.postpone(skip{instant: tick, reason: SkipBlackout, detail: &BlackoutError{Blackout: b}})
		_ = l.flush(ctx, farFuture) // else later
		return
	}
	if o, _ := l.paused(def, tick); o != nil {
		l.postpone(skip{instant: tick, reason: SkipPaused, detail: &PausedError{Job: def.Name, Override: o}})
		_ = l.flush(ctx, farFuture) // else later
		return
	}
	if reason, detail := l.inTheWay(ctx, def, tick); reason != "" {
		l.postpone(skip{instant: tick, reason: reason, detail: detail})
		_ = l.flush(ctx, farFuture) // else later
		return
	}
	claim, err := l.claim(ctx, def, tick, newer > 0)
	if err != nil {
		l.undecided(tick, err)
		return
	}
	if l.unread {
		l.unread = false
		l.s.log.Info("the record of this job can be read again", "job", def.Name)
	}
	l.decided(tick, claim)
}

// decided acts on the ledger's answer.
func (l *lane) decided(tick time.Time, claim ticks.Claim) {
	l.compare(claim)
	switch claim.Verdict {
	case ticks.Claimed:
		l.current = l.start(claim, false)
	case ticks.Overlap:
		l.tellSkip(context.Background(), "", tick, SkipOverlap, &OverlapError{Run: claim.Run})
	case ticks.Paused:
		l.tellSkip(context.Background(), "", tick, SkipPaused, &PausedError{Job: l.definition().Name, Pause: claim.Paused})
	case ticks.LeftOut:
		l.tellSkip(context.Background(), "", tick, SkipEarly, nil)
	case ticks.Buffered:
		l.count(func(s *JobStats) { s.Buffered++ })
		l.makeWay(tick)
	case ticks.Taken:
		l.taken(tick)
		l.checkAhead(claim.Last)
	}
	if claim.Waiting > 0 {
		l.expectWaiting()
	}
}

// deadline is when a tick that is not decided by then is given up: when it is
// too old, or when the next one takes its place.
func (l *lane) deadline(def *definition, tick time.Time) time.Time {
	due := def.due(tick)
	end := due.Add(l.s.cfg.Lateness)
	if def.Misfire.Policy == jobs.MisfireSkip {
		return end
	}
	worth := due.Add(def.Misfire.Window)
	if next, ok := def.next(tick); ok && def.Misfire.Policy == jobs.MisfireOnce && def.due(next).Before(worth) {
		worth = def.due(next)
	}
	if worth.After(end) {
		return worth
	}
	return end
}

// inTheWay waits until no run of ours is in the way of tick, and returns ""
// or why the tick has to be skipped. A run that began when the tick was due, or
// later, is a backlog that is being worked off: it is waited for, as is the
// record of one that has ended. Where runs may overlap or ticks may wait, the
// ledger decides.
func (l *lane) inTheWay(ctx context.Context, def *definition, tick time.Time) (SkipReason, error) {
	r := l.current
	if r == nil {
		return "", nil
	}
	if def.Overlap.Policy != jobs.OverlapSkip {
		return "", nil
	}
	reason, detail := SkipOverlap, error(&OverlapError{Run: r.tick})
	select {
	case <-r.workDone:
		reason, detail = SkipUndecided, errUnrecorded
	default:
		if def.due(tick).After(r.began.Add(l.moment(def, tick))) {
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

// errUnrecorded is why a tick is not decided whose previous run has ended here.
var errUnrecorded = errors.New("ZooKeeper has not confirmed the end of the previous run")

// claim asks the ledger until it answers or ctx ends. Where ticks are skipped
// that overlap, it waits for the run of another daemon that is in the way of
// tick for a moment, for it may have begun just now: its clock may be behind. A
// run that began when the tick was due already is a backlog that is being worked
// off there; that is waited for until it is too late, and so is whatever is in
// the way of a tick of our own backlog.
func (l *lane) claim(
	ctx context.Context, def *definition, tick time.Time, backlog bool,
) (claim ticks.Claim, err error) {
	due, moment := def.due(tick), l.moment(def, tick)
	patient := l.s.now().Add(moment)
	for pause := newPace(); ; {
		ask := askFor(def)
		ask.ClockAhead, _ = l.s.ClockAhead()
		ask.Definition = def.print
		if ask.OnOverlap == ticks.SkipOverlap && (backlog || l.s.now().Before(patient)) {
			ask.OnOverlap = ticks.TellOverlap
		}
		claim, err = l.s.cfg.Ledger.Claim(ctx, def.Name, tick, ask)
		told := err == nil && claim.Verdict == ticks.Overlap && ask.OnOverlap == ticks.TellOverlap
		if err == nil && !told {
			return claim, nil
		}
		if early(err) != nil {
			return ticks.Claim{}, err
		}
		if told && claim.Waiting > 0 { // since before the policy was changed; they go first
			l.expectWaiting()
			l.takeWaiting()
		}
		backlog = backlog || told && claim.Run.ClaimedAt.After(due.Add(moment))
		if !pause.wait(ctx) {
			if told {
				err = &OverlapError{Run: claim.Run}
			}
			return ticks.Claim{}, err
		}
	}
}

// askFor says what the ledger is to do with ticks that overlap.
func askFor(def *definition) ticks.Ask {
	switch def.Overlap.Policy {
	case jobs.OverlapBufferOne:
		return ticks.Ask{OnOverlap: ticks.BufferOverlap, Max: 1}
	case jobs.OverlapBufferAll:
		return ticks.Ask{OnOverlap: ticks.BufferOverlap, Max: def.Overlap.Max}
	case jobs.OverlapCancelOther:
		return ticks.Ask{OnOverlap: ticks.CancelOverlap}
	case jobs.OverlapAllowAll:
		return ticks.Ask{OnOverlap: ticks.AllowOverlap, Max: def.Overlap.Max}
	case jobs.OverlapSkip:
	}
	return ticks.Ask{OnOverlap: ticks.SkipOverlap}
}

// mostRuns is how many runs of a job may go on at once.
func mostRuns(def *definition) int {
	if def.Overlap.Policy == jobs.OverlapAllowAll {
		return def.Overlap.Max
	}
	return 1
}

// moment is what counts as just now when ticks come as they do after tick.
func (l *lane) moment(def *definition, tick time.Time) time.Duration {
	next, ok := def.next(tick)
	if !ok {
		return time.Second
	}
	return min(next.Sub(tick)/10, time.Second)
}

func (l *lane) taken(tick time.Time) {
	l.count(func(s *JobStats) { s.Taken++ })
	l.s.log.Debug("tick taken by another daemon", "job", l.definition().Name, "instant", tick.UTC())
}

// checkAhead looks for a clock that was ahead, so that the job stands still.
func (l *lane) checkAhead(last time.Time) {
	ahead, some := last.Sub(l.s.now()), time.Minute
	if server, ok := l.s.cfg.Ledger.ServerTime(); ok {
		ahead, some = last.Sub(server.Latest), ticks.Tolerance
	}
	if ahead <= some {
		l.warned = false
		return
	}
	if job := l.definition().Name; !l.warned {
		l.s.log.Error("no tick of this job can run for a while: a daemon whose clock was ahead has claimed a later one",
			"job", job, "until", last, "ahead", ahead.Round(time.Second), "remedy",
			"set the mark back: lockkeeper jobs rewind "+job+" --reason R")
	}
	l.warned = true
}

func (l *lane) undecided(tick time.Time, err error) {
	if e := early(err); e != nil { // by ZooKeeper's clock, which has been set back: it waits
		l.early = e.By
		l.requeue(tick)
		return
	}
	if l.s.isDraining() {
		l.tellSkip(context.Background(), "", tick, SkipDraining, err)
		return
	}
	reason := SkipUndecided
	if errors.As(err, new(*OverlapError)) {
		reason = SkipOverlap
	}
	if isUnreadable(err) && !l.unread { // its ticks are logged one by one below the level of warnings
		l.unread = true
		l.s.log.Error("no tick of this job runs until its record in ZooKeeper can be read",
			"job", l.definition().Name, "error", err)
	}
	l.tellSkip(context.Background(), "", tick, reason, err)
	l.postpone(skip{instant: tick, reason: reason, detail: err, told: true})
}

// start begins a run that was claimed.
func (l *lane) start(claim ticks.Claim, waited bool) *run {
	for _, dead := range claim.Interrupted {
		l.s.log.Warn("previous run was interrupted: its process or its session ended",
			"job", dead.Job, "instant", dead.Instant, "owner", dead.Owner, "host", dead.Host, "pid", dead.PID)
	}
	s := l.s
	s.mu.Lock()
	r := s.beginLocked(s.work, l)
	r.tick, r.waited = claim.Run, waited // makeWay may look at it from here on
	s.mu.Unlock()
	go func() {
		defer s.end(r)
		_ = r.do(new(r.patience())) // counted and logged
	}()
	return r
}
