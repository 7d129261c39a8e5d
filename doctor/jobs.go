package doctor

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// checkJobs names jobs of which daemons have different definitions at the same
// time. Each tick runs one of them.
func checkJobs(f *findings, x *facts, _ Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	if x.ticksErr != nil {
		f.skip("", fmt.Sprintf("jobs cannot be looked at: %v", x.ticksErr), "see access")
	}
	for _, job := range x.ticks {
		if len(job.Differing) == 0 {
			continue
		}
		f.warn(job.Job, "daemons have different definitions of this job, and each tick runs one of them: "+
			words.Join(job.Differing, "; ", func(d ticks.Definition) string {
				return fmt.Sprintf("%s by host %s, pid %d, last at %s",
					d.Fingerprint, d.Host, d.PID, d.Seen.UTC().Format(time.RFC3339))
			}),
			"if two teams have a job of this name, give each a root (zookeeper.root) or a name prefix; "+
				"if the definition is being changed, this ends ten minutes and two ticks after the last old daemon")
	}
}
