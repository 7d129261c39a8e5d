package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// This file is all that knows robfig/cron. Another parser or runner has to
// offer parseCron, cronSpec and waker, nothing else.

// cronSpec is the fields of a spec: a bit for each value, and the starBit.
type cronSpec struct{ *cron.SpecSchedule }

// parseCron reads five or six checked fields, or a descriptor such as @daily.
func parseCron(spec string) (parsed cronSpec, err error) {
	// The parser has panicked on some invalid specs.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the cron parser cannot read it (%v)", r)
		}
	}()
	parser := cron.NewParser(
		cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return cronSpec{}, fmt.Errorf("the cron parser cannot read it: %s", strings.TrimSpace(err.Error()))
	}
	fields, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return cronSpec{}, fmt.Errorf("it is no cron spec but a %T", schedule)
	}
	fields.Location = time.UTC
	return cronSpec{fields}, nil
}

// starBit is set in a field that was written * or ?.
const starBit = 1 << 63

// A waker calls one function at the start, when it is poked, and each time that
// the time has passed which the function itself said last. Calls come one at a
// time, and must not block, nor call the waker. Time is elapsed time: a step of
// the clock makes no call early or late.
type waker struct {
	cron *cron.Cron
	turn turnFunc
	id   cron.EntryID // of the one entry
}

func newWaker(turn func() (wait time.Duration)) *waker {
	w := &waker{cron: cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger)), turn: turn}
	w.enter()
	return w
}

func (w *waker) start() { w.cron.Start() }

// poke calls the function now. It waits for a call that is under way.
func (w *waker) poke() {
	w.cron.Remove(w.id)
	w.enter()
}

// stop returns when the function is not being called any more.
func (w *waker) stop() { <-w.cron.Stop().Done() }

// enter makes the library ask for the next time at once, which is the call. The
// job that it starts then has nothing to do.
func (w *waker) enter() { w.id = w.cron.Schedule(w.turn, cron.FuncJob(func() {})) }

type turnFunc func() (wait time.Duration)

// Next keeps the monotonic reading of now, so that the library does not compare
// wall clocks: after a step back it would sleep for as long as the step.
func (f turnFunc) Next(now time.Time) time.Time { return now.Add(f()) }
