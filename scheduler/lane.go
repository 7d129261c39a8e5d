package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
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
