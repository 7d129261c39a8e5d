package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// defaultSessionTimeout is what clients ask for that say nothing.
const defaultSessionTimeout = 15 * time.Second

func (o Options) sessionTimeout() time.Duration {
	if o.Client.SessionTimeout > 0 {
		return o.Client.SessionTimeout
	}
	return defaultSessionTimeout
}

// checkSession compares the session timeout that was asked for with what the
// servers grant.
func checkSession(f *findings, x *facts, o Options) {
	asked := o.sessionTimeout()
	tick, known := longestTick(x.servers)
	for _, s := range x.servers {
		if !s.up() {
			continue
		}
		if s.timeout != asked {
			f.warn(s.address, fmt.Sprintf("grants a session timeout of %s in place of %s%s",
				words.Duration(s.timeout), words.Duration(asked), bounds(s)),
				fmt.Sprintf("ask for %s (zookeeper.session_timeout, --zk-session-timeout), "+
					"or set minSessionTimeout and maxSessionTimeout in zoo.cfg", words.Duration(s.timeout)))
		} else {
			f.ok(s.address, fmt.Sprintf("grants the session timeout of %s", words.Duration(asked)))
		}
		if known {
			checkMargin(f, s, o, tick)
		}
	}
}

// longestTick returns the longest tick of all servers: any of them may lead, and what counts is that of the leader.
func longestTick(servers []*server) (longest time.Duration, known bool) {
	for _, s := range servers {
		if tick, ok := s.figures.number("tick_time"); ok {
			longest, known = max(longest, milliseconds(tick)), true
		}
	}
	return longest, known
}

// checkMargin compares what a holder keeps to the end of its session with what it needs.
func checkMargin(f *findings, s *server, o Options, tick time.Duration) {
	margin, least := o.Client.MarginOf(s.timeout), zkclient.LeastMargin(s.timeout, tick)
	if margin >= least {
		return
	}
	remedy := fmt.Sprintf("use a margin of %s or more", words.Duration(least.Round(time.Millisecond)))
	if o.Client.Margin == 0 {
		remedy = fmt.Sprintf("ask for a session timeout of %s or more", words.Duration(enoughSession(tick)))
		if s.timeout < enoughSession(tick) && s.timeout >= shortestSession {
			remedy += ", or shorten tickTime in zoo.cfg"
		}
	}
	f.warn(s.address, fmt.Sprintf("a holder keeps %s to the end of its session of %s, and with a tick of %s it needs "+
		"%s: a lock may be given away a moment before its holder knows", words.Duration(margin.Round(time.Millisecond)),
		words.Duration(s.timeout), words.Duration(tick), words.Duration(least.Round(time.Millisecond))), remedy)
}

// shortestSession is the shortest session timeout, in tenths of a second, whose margin is long enough
// where the tick is short.
const shortestSession = 1400 * time.Millisecond

// enoughSession is a session timeout whose margin is long enough with that tick.
func enoughSession(tick time.Duration) time.Duration {
	return max(2*tick+400*time.Millisecond, shortestSession)
}

func bounds(s *server) string {
	least, ok := s.figures.number("min_session_timeout")
	most, also := s.figures.number("max_session_timeout")
	if !ok || !also {
		return ""
	}
	text := fmt.Sprintf(": it allows %s to %s", words.Duration(milliseconds(least)), words.Duration(milliseconds(most)))
	if tick, ok := s.figures.number("tick_time"); ok {
		text += fmt.Sprintf(", with a tick of %s", words.Duration(milliseconds(tick)))
	}
	return text
}

// checkLeases compares the session timeout with the locks of the file.
func checkLeases(f *findings, x *facts, o Options) {
	if o.Config == nil {
		if o.File == "" {
			f.skip("", "no configuration file was named, so the leases of jobs are not known", "name it with -f")
		}
		return
	}
	timeout := x.granted
	if timeout == 0 {
		timeout = o.sessionTimeout()
	}
	var shorter, grace []string
	locks := 0
	for _, job := range o.Config.Jobs {
		for _, r := range job.Requirements {
			locks++
			if r.LeaseTimeout > 0 && r.LeaseTimeout < timeout {
				shorter = append(shorter, fmt.Sprintf("%s on %s (%s)", job.Name, r.Scope, words.Duration(r.LeaseTimeout)))
			}
			if r.AcquireTimeout != nil && *r.AcquireTimeout > 0 && *r.AcquireTimeout < timeout {
				grace = append(grace, fmt.Sprintf("%s on %s (%s)", job.Name, r.Scope, words.Duration(*r.AcquireTimeout)))
			}
		}
	}
	slices.Sort(shorter)
	slices.Sort(grace)
	if len(shorter) > 0 {
		f.warn("", fmt.Sprintf("the lease is shorter than the session timeout of %s: %s; when the holder's machine dies, "+
			"its lock is free only when the session ends", words.Duration(timeout), words.Few(shorter, few)),
			"shorten the session timeout, or reckon with it")
	}
	if len(grace) > 0 {
		f.warn("", fmt.Sprintf("the acquire timeout is shorter than the session timeout of %s: %s; after the death of a "+
			"holder such a request gives up before the lock is free", words.Duration(timeout), words.Few(grace, few)),
			"lengthen the acquire timeout, or shorten the session timeout")
	}
	if len(shorter)+len(grace) == 0 {
		f.ok("",
			fmt.Sprintf("the timeouts of %s fit a session timeout of %s", words.Count(locks, "lock"), words.Duration(timeout)))
	}
}

// few is how many of what is wrong are named.
const few = 5
