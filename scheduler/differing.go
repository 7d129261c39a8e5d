package scheduler

import (
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// compare tells when other daemons mean something else by the name of the job:
// once of each other definition, and when that is over.
func (l *lane) compare(claim ticks.Claim) {
	if !claim.Compared {
		return
	}
	l.count(func(s *JobStats) { s.Differing = len(claim.Differing) })
	name := l.definition().Name
	if len(claim.Differing) == 0 {
		if l.differs != nil {
			l.s.log.Info("all daemons have the same definition of the job again", "job", name)
		}
		l.differs = nil
		return
	}
	for _, other := range claim.Differing {
		if l.differs[other.Fingerprint] {
			continue
		}
		if l.differs == nil {
			l.differs = make(map[string]bool)
		}
		l.differs[other.Fingerprint] = true
		l.s.log.Warn("two definitions of one job are in use: each tick runs one of them, not both; "+
			"give each team a root or a name prefix of its own, or, while the definition is being changed, wait for "+
			"the last daemon", "job", name, "host", claim.By.Host, "pid", claim.By.PID, "definition", claim.By.Fingerprint,
			"other_host", other.Host, "other_pid", other.PID, "other_definition", other.Fingerprint, "other_seen", other.Seen)
	}
}
