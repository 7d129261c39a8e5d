package zktest

import (
	"container/heap"
	"time"
)

// An agenda is what an ensemble has to do at which instant. Things of the same
// instant are done in the order in which they were put there.
type agenda struct {
	items  items
	number int
}

type item struct {
	at     time.Time
	number int
	do     func()
}

type items []item

func (s items) Len() int      { return len(s) }
func (s items) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s items) Less(i, j int) bool {
	if !s[i].at.Equal(s[j].at) {
		return s[i].at.Before(s[j].at)
	}
	return s[i].number < s[j].number
}
func (s *items) Push(x any) { *s = append(*s, x.(item)) }
func (s *items) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = item{}
	*s = (*s)[:last]
	return x
}

// schedule has something done at an instant, with the lock of the ensemble held.
// The caller calls run before it unlocks.
func (e *Ensemble) schedule(at time.Time, do func()) {
	e.agenda.number++
	heap.Push(&e.agenda.items, item{at: at, number: e.agenda.number, do: do})
}

// run does what is due and sets the timer for the rest. The caller holds the
// lock.
func (e *Ensemble) run() {
	if e.running {
		return
	}
	e.running = true
	defer func() { e.running = false }()
	for !e.closed && len(e.agenda.items) > 0 {
		if wait := time.Until(e.agenda.items[0].at); wait > 0 {
			if e.timer == nil {
				e.timer = time.AfterFunc(wait, e.wake)
			} else {
				e.timer.Reset(wait)
			}
			return
		}
		heap.Pop(&e.agenda.items).(item).do()
	}
}

func (e *Ensemble) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run()
}
