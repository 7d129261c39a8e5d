package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// This file is all that knows robfig/cron. Another parser or runner has to
// offer parseCron, cronSpec and runner, nothing else.

// cronSpec evaluates parsed fields on a clock without time zones.
type cronSpec struct{ *cron.SpecSchedule }

// parseCron reads five or six checked fields, or a descriptor such as @daily.
func parseCron(spec string) (parsed cronSpec, err error) {
	// The parser has panicked on specs that nobody expected.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the cron parser cannot read it (%v)", r)
		}
	}()
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return cronSpec{}, fmt.Errorf("%s; see crontab(5)", strings.TrimSpace(err.Error()))
	}
	fields, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return cronSpec{}, fmt.Errorf("it is no cron spec but a %T", schedule)
	}
	fields.Location = time.UTC
	return cronSpec{fields}, nil
}

// next returns the first matching second that is not before from. Both are
// seconds on a clock whose days all have 24 hours.
func (c cronSpec) next(from int64) (int64, bool) {
	t := time.Unix(from-1, 0).UTC()
	// The library gives up after five years; 29 February can be eight away.
	for range 3 {
		if due := c.Next(t); !due.IsZero() {
			return due.Unix(), true
		}
		t = t.AddDate(5, 0, 0)
	}
	return 0, false
}

const starBit = 1 << 63

// never reports whether no date of any year matches.
func (c cronSpec) never() bool {
	everyDay := c.Dow&starBit == 0 && c.Dom&starBit == 0 && c.Dow != 0 // either field is enough
	dated := false
	for month := time.January; month <= time.December; month++ {
		if c.Month&(1<<uint(month)) == 0 {
			continue
		}
		longest := time.Date(2000, month+1, 0, 0, 0, 0, 0, time.UTC).Day() // 2000 is a leap year
		for day := 1; day <= longest; day++ {
			dated = dated || c.Dom&(1<<uint(day)) != 0
		}
	}
	return !dated && !everyDay
}

// A runner calls each of its functions at the start and then at the instants
// that the function itself asked for last, on the machine's clock. It looks at
// the clock itself, not at elapsed time: after a suspend or a step of the
// clock all that is due by then is called, within wakeEvery.
type runner struct{ cron *cron.Cron }

// wakeEvery is how long the runner sleeps at most: timers stand still while
// the machine does.
const wakeEvery = 5 * time.Second

func newRunner() runner {
	r := runner{cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))}
	r.add(func(now time.Time) time.Time { return now.Add(wakeEvery) })
	return r
}

// add adds next, which is given the time and returns when it wants to be
// called again; zero: never. Calls come one at a time, and must not block, nor
// call the runner.
func (r runner) add(next func(now time.Time) time.Time) {
	// The instants are told by next; the job that the library starts has
	// nothing to do.
	r.cron.Schedule(nextFunc(next), cron.FuncJob(func() {}))
}

func (r runner) start() { r.cron.Start() }

// stop returns when no function is being called any more.
func (r runner) stop() { <-r.cron.Stop().Done() }

type nextFunc func(time.Time) time.Time

func (f nextFunc) Next(now time.Time) time.Time {
	at := f(now)
	if at.IsZero() {
		return at
	}
	return at.Round(0) // no monotonic reading: the library must compare wall clocks
}
