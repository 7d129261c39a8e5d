package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// lookAtTicks reads what is decided of the ticks of all jobs. It is compared with the
// leader's clock, which is not asked for when nothing may be written.
func (x *examiner) lookAtTicks(ctx context.Context, client *lock.Client) {
	if x.options.ReadOnly {
		return
	}
	x.facts.ticks, _, x.facts.ticksErr = client.TickLedger("").States(ctx) // the survey reports what cannot be read
}

// checkTicks names jobs whose ticks were decided before they were due: none of them
// runs until then.
func checkTicks(f *findings, x *facts, o Options) {
	switch {
	case !x.answers() || x.surveyErr != nil || !x.survey.Exists || o.ReadOnly:
		return
	case x.ticksErr != nil:
		f.skip("", fmt.Sprintf("what is decided of the jobs' ticks cannot be read: %v", x.ticksErr), "see access")
		return
	}
	stopped := 0
	for _, s := range x.ticks {
		if s.Ahead == 0 {
			if n := len(s.LeftOut); n > 0 {
				f.warn(s.Job, fmt.Sprintf("skips ticks from %s up to %s: a clock that was ahead has run them, or may have",
					s.LeftOut[0].After.UTC().Format(time.RFC3339), s.LeftOut[n-1].Until.UTC().Format(time.RFC3339)),
					"if these are too many: lockkeeper jobs rewind JOB --since TIME --reason R, "+
						"with the time when the clock went wrong")
			}
			continue
		}
		stopped++
		f.problem(s.Job, fmt.Sprintf("runs no tick until %s: a daemon whose clock was ahead has decided those before",
			s.DecidedUntil().UTC().Format(time.RFC3339)),
			"set that clock right, then: lockkeeper jobs rewind JOB --reason R")
	}
	if n := len(x.ticks); stopped == 0 && n > 0 {
		f.ok("", fmt.Sprintf("of %s, none is decided before it was due", words.Count(n, "job")))
	}
}
