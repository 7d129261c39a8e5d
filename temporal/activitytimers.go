package temporal

import "time"

// waitTimers say when the attempt has waited long enough for something.
type waitTimers struct {
	park     timers // lends out its slot
	yield    timers // ends, for another one to follow
	patience timers // gives up, as the declaration says
	end      timers // gives up, as the timeouts of the activity say
}

func (t *waitTimers) stop() {
	t.park.stop()
	t.yield.stop()
	t.patience.stop()
	t.end.stop()
}

func (w *wait) startTimers() *waitTimers {
	t := &waitTimers{}
	t.park.set(parkAfter)
	switch w.lock.OnBusy {
	case BusyRetry:
		t.yield.set(w.inSlot(parkAfter))
	case BusyHybrid:
		t.yield.set(w.inSlot(w.lock.inSlotWait()))
	case BusyWait, BusySkip:
	}
	if w.lock.patience() != nil {
		t.patience.set(w.patience() + time.Second) // the guard knows better who was in the way
	}
	if deadline := w.info.Deadline; !deadline.IsZero() {
		left := time.Until(deadline)
		t.end.set(left - w.lock.cleanup() - min(safetyMargin, left/10))
	}
	return t
}

// timers is a timer that may not be set.
type timers struct{ timer *time.Timer }

func (t *timers) set(d time.Duration) {
	t.stop()
	t.timer = time.NewTimer(max(d, 0))
}

func (t *timers) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *timers) c() <-chan time.Time {
	if t.timer == nil {
		return nil
	}
	return t.timer.C
}
