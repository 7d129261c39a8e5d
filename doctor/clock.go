package doctor

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// How far clocks may be apart. Locks do not depend on them but in one place: what
// is left of a lease, after another server has become the leader. Schedules go by
// the earlier one of the machine's clock and the leader's, and a second more.
const (
	clocksApart    = time.Second
	clocksFarApart = time.Minute
)

// checkClocks compares this machine's clock with those of the servers, and these
// with each other.
func checkClocks(f *findings, x *facts, _ Options) {
	if !x.answers() {
		return
	}
	best := bestStamp(x.servers)
	if best == nil {
		f.skip("", "the clock of the leader is not known: nothing was written", "")
	} else {
		ahead, accuracy := best.Ahead()
		what := "ticks that no other daemon runs are late here by that much"
		if ahead < 0 {
			what = "the ticks of this machine go by the leader's clock, not by its own"
		}
		found := fmt.Sprintf("the leader's clock is %s (± %s)", apart(ahead, "this machine's"), short(accuracy))
		switch off := abs(ahead) - accuracy; {
		case off > clocksFarApart:
			f.problem("", found,
				"set the clocks right (chrony, systemd-timesyncd): "+what+", and logs of both cannot be compared")
		case off > clocksApart:
			f.warn("", found, "set the clocks right (chrony, systemd-timesyncd): "+what)
		default:
			f.ok("", found)
		}
	}
	checkServerClocks(f, x)
}

func checkServerClocks(f *findings, x *facts) {
	var first, last *server // the clocks that are behind and ahead of all others
	n := 0
	for _, s := range x.servers {
		if s.accuracy == 0 {
			continue
		}
		n++
		if first == nil || s.ahead < first.ahead {
			first = s
		}
		if last == nil || s.ahead > last.ahead {
			last = s
		}
	}
	if n < 2 {
		return
	}
	between, accuracy := last.ahead-first.ahead, last.accuracy+first.accuracy
	found := fmt.Sprintf("the clocks of %d servers are at most %s apart (± %s)", n, short(between), short(accuracy))
	if between-accuracy > clocksApart {
		f.warn("", fmt.Sprintf("the clock of %s is %s ahead of that of %s (± %s)",
			last.address, short(between), first.address, short(accuracy)),
			"set the servers' clocks right: after a change of the leader a lease would seem shorter or longer by that much, "+
				"and ticks be late if the new leader's clock is behind")
		return
	}
	f.ok("", found)
}

// bestStamp returns the most accurate one.
func bestStamp(servers []*server) (best *zkclient.Stamp) {
	for _, s := range servers {
		if s.stamp == nil {
			continue
		}
		if best == nil || s.stamp.Replied.Sub(s.stamp.Sent) < best.Replied.Sub(best.Sent) {
			best = s.stamp
		}
	}
	return best
}

func apart(ahead time.Duration, of string) string {
	if ahead < 0 {
		return fmt.Sprintf("%s behind %s", short(-ahead), of)
	}
	return fmt.Sprintf("%s ahead of %s", short(ahead), of)
}

func abs(d time.Duration) time.Duration { return max(d, -d) }
