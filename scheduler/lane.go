package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A lane decides the ticks of one job, one by one, in order: the next one only
// when this one is claimed, waits in the ledger, is taken or is skipped. Runs go
// on beside it. It has a goroutine while there is something to decide.
type lane struct {
	s     *Scheduler
	feed  *feed
	alarm *alarm // nil before open, and for a job that is never due

	mu     sync.Mutex
	def    *definition
	queue  []time.Time // due, not decided
	stats  JobStats
	owned  context.Context // while it lives, the job is this daemon's; nil without a spread
	active bool            // a goroutine decides
	again  bool            // and has to look once more
	gone   bool            // the job was removed
	waits  bool            // a goroutine waits until no override pauses the job any more
	buffer bool            // the ledger may have ticks of the job that wait for the end of a run
	gaps   []gap           // between ticks of the queue: too many to decide one by one

	// Of the goroutine that decides.
	joined  bool            // ticks between the ledger's last one and our first are in the queue
	begun   bool            // a tick of the job is decided, or has begun to
	current *run            // the last run of a tick here, until it is recorded
	early   time.Duration   // until a tick that was put back is no longer still to come
	pending []skip          // to be recorded before the next claim, by instant
	warned  bool            // that a clock is ahead
	unread  bool            // it was logged that the record of the job cannot be read
	differs map[string]bool // fingerprints of other definitions, of which was warned
	timer   *time.Timer
}

// A skip that is not yet in the ledger: of one tick, or of several in a
// row.
type skip struct {
	first   time.Time // of several
	instant time.Time // the last one
	count   int64
	reason  SkipReason
	detail  error
	told    bool // counted and logged
}

func (p skip) span() ticks.Span {
	return ticks.Span{First: p.first, Last: p.instant, Count: p.count}
}

// maxPending bounds how many of them are kept for the ledger. In a long outage
// the oldest are kept as one.
const maxPending = 1000

func newLane(s *Scheduler, def *definition) *lane {
	l := &lane{s: s, def: def, stats: JobStats{Skipped: make(map[SkipReason]uint64)}}
	l.feed = &feed{job: def.Name, schedule: def.schedule, jitter: def.Jitter, emit: l.push, dropped: l.dropped}
	return l
}

// open begins to fire the ticks of the job.
func (l *lane) open() {
	l.feed.begin(l.s.now().Round(0))
	l.alarm = l.s.clock.add(l.feed.next)
	l.poke()
}

// definition returns the job as it is now.
func (l *lane) definition() *definition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.def
}

// push takes instants that have come due. It never blocks.
func (l *lane) push(instants []time.Time) {
	l.mu.Lock()
	l.queue = append(l.queue, instants...)
	l.mu.Unlock()
	l.poke()
}

// dropped takes a stretch of instants that are too many to decide one by one.
func (l *lane) dropped(after, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, gap{after, before})
}

// skipGaps makes skips of the gaps before a tick.
func (l *lane) skipGaps(def *definition, tick time.Time) {
	l.mu.Lock()
	n := 0
	for n < len(l.gaps) && l.gaps[n].after.Before(tick) {
		n++
	}
	gaps := l.gaps[:n]
	l.gaps = l.gaps[n:]
	l.mu.Unlock()
	for _, g := range gaps {
		span, ok := spanOf(def.schedule, g.after, g.before.Add(-1))
		if !ok {
			continue
		}
		l.s.log.Error("the clock went too far forward, or stood still for long: ticks in between are skipped",
			"job", def.Name, "first", span.First.UTC(), "last", span.Last.UTC(), "ticks", span.Count)
		l.count(func(s *JobStats) { s.Skipped[SkipMissed] += uint64(span.Count) })
		l.postpone(skip{first: span.First, instant: span.Last, count: span.Count, reason: SkipMissed, told: true})
	}
}

// poke lets a goroutine look for something to decide. It never blocks.
func (l *lane) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active {
		l.again = true
		return
	}
	if l.gone || !l.s.enter() {
		return
	}
	l.active, l.again = true, false
	go l.work()
}

// pokeIn pokes a little later.
func (l *lane) pokeIn(pause time.Duration) {
	pause = pause/2 + rand.N(pause)
	if l.timer == nil {
		l.timer = time.AfterFunc(pause, l.poke)
		return
	}
	l.timer.Reset(pause)
}

func (l *lane) work() {
	defer l.s.deciding.Done()
	for {
		l.turn()
		rest, gone := l.rest()
		if gone {
			l.giveUp(SkipRemoved)
		}
		if rest {
			return
		}
	}
}

// rest reports whether there is nothing left to look at, and whether that is
// because the job was removed.
func (l *lane) rest() (rest, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again && !l.gone && !l.s.isDraining() {
		l.again = false
		return false, false
	}
	l.active = false
	return true, l.gone
}

// pop takes the oldest tick; newer tells how many more there are.
func (l *lane) pop() (tick time.Time, newer int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return tick, 0, false
	}
	tick, l.queue = l.queue[0], l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	return tick, len(l.queue), true
}

// putBack puts ticks in front of the queue.
func (l *lane) putBack(ticks ...time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(slices.Clone(ticks), l.queue...)
}

// retryPause is how soon the lane tries again what ZooKeeper has not answered,
// and polls for the end of a run elsewhere.
const retryPause = time.Second

// turn decides all that can be decided now.
func (l *lane) turn() {
	if !l.s.isDraining() && l.mine() {
		l.joinSoon()
	}
	l.early = 0
	for !l.s.isDraining() && l.mine() && !l.isGone() && l.early == 0 {
		tick, newer, ok := l.pop()
		if !ok {
			break
		}
		l.decide(tick, newer)
	}
	if !l.mine() {
		l.shed(maxBacklog)
	}
	if l.s.isDraining() {
		return
	}
	if len(l.pending) > 0 && l.joined && !l.s.line.busy() { // those that can still run go first
		ctx, cancel := l.s.until(l.s.now().Add(drainClaim))
		if l.beginPending(ctx) {
			_ = l.flush(ctx, l.undecidedFrom()) // else later
		}
		cancel()
	}
	var again time.Duration
	if l.mine() {
		again = l.takeWaiting()
	}
	if len(l.pending) > 0 || !l.joined && l.mine() {
		again = retryPause
	}
	if l.early > 0 {
		again = max(min(l.early, retryPause), retryPause/20)
	}
	if again > 0 {
		l.pokeIn(again)
	}
}

// undecidedFrom returns the oldest tick of the queue, or one of a far future.
func (l *lane) undecidedFrom() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		return l.queue[0]
	}
	return farFuture
}

var farFuture = time.Unix(1<<40, 0)

func (l *lane) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// giveUp ends the ticks that are left when the scheduler stops, or when the job
// was removed. The ledger does not record them: the other daemons decide them.
func (l *lane) giveUp(reason SkipReason) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.mine() {
		l.shed(0)
	}
	for tick, _, ok := l.pop(); ok; tick, _, ok = l.pop() {
		l.tellSkip(context.Background(), "", tick, reason, nil)
	}
	for _, p := range l.pending {
		if !p.told {
			l.tellSkip(context.Background(), "", p.instant, p.reason, p.detail)
		}
	}
	l.pending = nil
}

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
func (l *lane) claim(ctx context.Context, def *definition, tick time.Time, backlog bool) (claim ticks.Claim, err error) {
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
			"job", job, "until", last, "ahead", ahead.Round(time.Second), "remedy", "set the mark back: lockkeeper jobs rewind "+job+" --reason R")
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
		l.s.log.Error("no tick of this job runs until its record in ZooKeeper can be read", "job", l.definition().Name, "error", err)
	}
	l.tellSkip(context.Background(), "", tick, reason, err)
	l.postpone(skip{instant: tick, reason: reason, detail: err, told: true})
}

func (l *lane) postpone(p skip) {
	if p.count == 0 {
		p.first, p.count = p.instant, 1
	}
	if len(l.pending) == maxPending {
		l.merge()
	}
	at, _ := slices.BinarySearchFunc(l.pending, p.instant, func(p skip, t time.Time) int { return p.instant.Compare(t) })
	l.pending = slices.Insert(l.pending, at, p)
}

// merge makes one of the two oldest skips.
func (l *lane) merge() {
	for _, p := range l.pending[:2] {
		if !p.told {
			l.tellSkip(context.Background(), "", p.instant, p.reason, p.detail)
		}
	}
	a, b := l.pending[0], l.pending[1]
	b.first, b.count, b.told = a.first, a.count+b.count, true
	if a.reason != b.reason {
		b.reason = SkipUndecided // that holds for both
	}
	l.pending = l.pending[1:]
	l.pending[0] = b
}

// flush tells the ledger of skipped ticks before an instant, in order, until it
// has answered or ctx ends.
func (l *lane) flush(ctx context.Context, before time.Time) error {
	for pause := newPace(); len(l.pending) > 0 && l.pending[0].instant.Before(before); {
		if head := l.pending[0]; head.count > 1 {
			if err := l.flushSpan(ctx, head); err != nil && (early(err) != nil || !pause.wait(ctx)) {
				return err
			}
			continue
		}
		reason := l.pending[0].reason
		n := slices.IndexFunc(l.pending, func(p skip) bool { return p.reason != reason || p.count > 1 || !p.instant.Before(before) })
		if n < 0 {
			n = len(l.pending)
		}
		instants := make([]time.Time, n)
		for i, p := range l.pending[:n] {
			instants[i] = p.instant
		}
		recorded, err := l.s.cfg.Ledger.RecordSkip(ctx, l.definition().Name, string(reason), instants...)
		if err != nil {
			if early(err) != nil || !pause.wait(ctx) {
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
				l.tellSkip(context.Background(), "", p.instant, p.reason, p.detail)
			}
		}
		l.pending = l.pending[n:]
	}
	return nil
}

// flushSpan tells the ledger of several ticks, which come first in line. If
// others have decided some of them, it leaves the rest there.
func (l *lane) flushSpan(ctx context.Context, p skip) error {
	def := l.definition()
	recorded, decided, err := l.s.cfg.Ledger.RecordMissed(ctx, def.Name, string(p.reason), p.span())
	switch {
	case err != nil:
		return err
	case !recorded:
		if rest, ok := spanOf(def.schedule, decided, p.instant); ok {
			p.first, p.instant, p.count = rest.First, rest.Last, rest.Count
			l.pending[0] = p
			return nil
		}
	}
	l.pending = l.pending[1:]
	return nil
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
