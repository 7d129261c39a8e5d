package scheduler

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// A runner calls each of its functions when it is added and then at the
// instants that the function itself asked for last, on a clock. It looks at the
// clock itself, not at elapsed time: after a suspend or a step of the clock all
// functions are called, within wakeEvery.
//
// Calls come one at a time, in the order of the instants, and must not block. A
// function may add, wake and remove others; it ends itself by returning the zero
// time.
type runner struct {
	waker   *waker
	wall    func() time.Time       // the clock that instants are read by
	machine func() time.Time       // whose steps are reported; nil: wall
	longest time.Duration          // without a look at it: wakeEvery, but in tests of whole years
	stepped func(by time.Duration) // called like a function, before the others

	mu     sync.Mutex
	alarms map[*alarm]struct{}
	asleep alarmHeap // those that have asked for an instant
	poked  chan struct{}
	done   chan struct{} // closed by stop
	poking sync.WaitGroup
	born   time.Time
	turned atomic.Int64 // how long after that the last turn began, or ended; 0: none has begun

	// Of the turns alone.
	due      []*alarm
	seen     [2]time.Time // of wall and of machine
	seenMono time.Time
}

// wakeEvery is how long the runner sleeps at most: timers stand still while
// the machine does.
const wakeEvery = 5 * time.Second

// maxDrift is how far the wall clock may run from elapsed time between two looks
// until that is a step. A clock that is slewed stays far below it.
const maxDrift = time.Second

// newRunner returns a runner that tells stepped, if it is not nil, when the
// machine's clock has been put forward, or the machine was suspended (positive),
// or the clock has been put back (negative).
func newRunner(stepped func(by time.Duration)) *runner {
	r := &runner{
		wall: time.Now, longest: wakeEvery, stepped: stepped,
		alarms: make(map[*alarm]struct{}), poked: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.waker = newWaker(r.turn)
	return r
}

// An alarm is a function of a runner.
type alarm struct {
	runner *runner
	next   func(now time.Time) time.Time

	calling sync.Mutex // while the function is called
	removed bool       // guarded by calling

	// Guarded by the runner's mu.
	at    time.Time // called then; zero: never
	place int       // in the heap; -1: not there
	woken bool      // while it was called
}

// add adds next, which is given the time and returns when it wants to be
// called again; zero: not before a wake. It may be called at any time.
func (r *runner) add(next func(now time.Time) time.Time) *alarm {
	a := &alarm{runner: r, next: next, place: -1}
	r.mu.Lock()
	r.alarms[a] = struct{}{}
	r.mu.Unlock()
	a.wake()
	return a
}

// wake has the function called soon. It does not wait for that.
func (a *alarm) wake() {
	r := a.runner
	r.mu.Lock()
	_, known := r.alarms[a]
	if known {
		a.woken = true
		r.ask(a, time.Unix(0, 0)) // in the past
	}
	r.mu.Unlock()
	if known {
		r.poke()
	}
}

// remove ends the alarm: when it returns, the function is not called any more.
// It waits for a call that is under way, so hold no lock that the function
// takes, and do not call it from the function itself.
func (a *alarm) remove() {
	r := a.runner
	r.mu.Lock()
	delete(r.alarms, a)
	if a.place >= 0 {
		heap.Remove(&r.asleep, a.place)
	}
	r.mu.Unlock()
	a.calling.Lock()
	a.removed = true
	a.calling.Unlock()
}

// start begins to call the functions. A runner is started once.
func (r *runner) start() {
	if r.machine == nil {
		r.machine = r.wall
	}
	r.seen, r.seenMono = [2]time.Time{r.wall().Round(0), r.machine().Round(0)}, time.Now()
	r.born = r.seenMono
	r.waker.start()
	r.poking.Go(func() {
		// A wake must not wait for a turn, and the library has no poke that
		// does not.
		for {
			select {
			case <-r.poked:
				r.waker.poke()
			case <-r.done:
				return
			}
		}
	})
}

// stop returns when no function is being called any more. It must not be
// called from one, nor twice.
func (r *runner) stop() {
	close(r.done)
	r.poking.Wait()
	r.waker.stop()
}

// turning reports whether the runner looks at its clock: false if it has not for
// three times as long as it sleeps. It is true before start and after stop.
func (r *runner) turning() bool {
	select {
	case <-r.done:
		return true
	default:
	}
	turned := time.Duration(r.turned.Load())
	return turned == 0 || time.Since(r.born)-turned < 3*r.longest
}

// looked keeps when that was, for turning.
func (r *runner) looked() { r.turned.Store(max(1, int64(time.Since(r.born)))) }

func (r *runner) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// turn calls all that is due and returns how long to sleep.
func (r *runner) turn() time.Duration {
	r.looked()
	defer r.looked()         // one that took long is over
	now := r.wall().Round(0) // functions compare wall clocks
	wall, machine := r.drift(now)
	if machine.Abs() > maxDrift && r.stepped != nil {
		r.stepped(machine)
	}
	if wall.Abs() > maxDrift || machine.Abs() > maxDrift {
		r.askAll(now)
	}
	for _, a := range r.takeDue(now) {
		r.call(a, now)
	}
	return r.sleep()
}

// drift returns how far the clocks ran from elapsed time since the last look.
func (r *runner) drift(now time.Time) (wall, machine time.Duration) {
	mono, seen := time.Now(), [2]time.Time{now, r.machine().Round(0)}
	elapsed := mono.Sub(r.seenMono)
	wall, machine = seen[0].Sub(r.seen[0])-elapsed, seen[1].Sub(r.seen[1])-elapsed
	r.seen, r.seenMono = seen, mono
	return wall, machine
}

func (r *runner) call(a *alarm, now time.Time) {
	a.calling.Lock()
	defer a.calling.Unlock()
	if a.removed {
		return
	}
	at := a.next(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.alarms[a]; known && !a.woken {
		r.ask(a, at)
	}
}

// takeDue takes those whose time has come. What is woken from here on is for
// the next turn, so that functions that wake each other do not hold up the rest.
func (r *runner) takeDue(now time.Time) []*alarm {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.due)
	r.due = r.due[:0]
	for len(r.asleep) > 0 && !r.asleep[0].at.After(now) {
		a := heap.Pop(&r.asleep).(*alarm)
		a.woken = false
		r.due = append(r.due, a)
	}
	return r.due
}

// sleep returns how long nothing is due.
func (r *runner) sleep() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asleep) == 0 {
		return r.longest
	}
	return max(0, min(r.longest, r.asleep[0].at.Sub(r.wall().Round(0))))
}

// ask puts a where its instant says.
func (r *runner) ask(a *alarm, at time.Time) {
	a.at = at
	switch {
	case at.IsZero() && a.place >= 0:
		heap.Remove(&r.asleep, a.place)
	case at.IsZero():
	case a.place >= 0:
		heap.Fix(&r.asleep, a.place)
	default:
		heap.Push(&r.asleep, a)
	}
}

// askAll makes all due, whatever they asked for.
func (r *runner) askAll(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.alarms {
		if a.at.IsZero() || a.at.After(now) {
			r.ask(a, now)
		}
	}
}

// alarmHeap has the next one in front.
type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	a.place = len(*h)
	*h = append(*h, a)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.place = -1
	return a
}
