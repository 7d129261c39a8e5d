package dashboards

import (
	"fmt"
	"time"
)

// Sections of docs/howto/alerts.md, which say what to do.
const (
	sectionStarved  = "Starved locks"
	sectionHold     = "Long holds"
	sectionForced   = "Forced preemptions"
	sectionSession  = "Lost sessions"
	sectionOverlap  = "Two holders at once"
	sectionBlind    = "No data"
	sectionJobs     = "Jobs that do not run"
	sectionOrdered  = "Refused changes and wrong clocks"
	sectionOverflow = "Too many series"
)

// Alerts returns all alerts, the worst first within each of their subjects.
func Alerts() []Alert {
	return append(append(lockAlerts(), sessionAlerts()...), daemonAlerts()...)
}

func lockAlerts() []Alert { //nolint:funlen // a table: one entry for each alert
	return []Alert{
		{
			Name: "LockkeeperOverlap", Query: overlapsByClass(), Window: time.Hour, Is: "> 0", Severity: Critical,
			Section: sectionOverlap, Summary: "{{ $labels.lock_class }}: two believed that they held one lock",
			Description: "A resource was given a fencing token older than one it had seen, and has refused it. " +
				"Find out who wrote with it, and why it went on.",
			proof: proof{
				bad:  series{overlaps + `{job="lk",lock_class="db"}`: "0x30 1x30"},
				good: series{overlaps + `{job="lk",lock_class="db"}`: "0x60"}, at: 40 * time.Minute,
				labels: labels{"job": "lk", "lock_class": "db"},
			},
		},
		{
			Name: "LockkeeperLockStarvedLong", Query: oldestWaits(), Is: fmt.Sprint("> ", starvedLong), For: 5 * time.Minute,
			Severity: Critical, Section: sectionStarved,
			Summary: "{{ $labels.lock_class }}: a request has waited for {{ $value | humanizeDuration }}",
			Description: "Nothing moves here any more. lockkeeper locks ls shows the root blocker, " +
				"lockkeeper locks why says what happens next and when.",
			proof: proof{
				bad:  series{oldestWait + `{job="lk",lock_class="db"}`: "3660x10"},
				good: series{oldestWait + `{job="lk",lock_class="db"}`: "3600x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "lock_class": "db"}, value: "1h 1m 0s",
			},
		},
		{
			Name: "LockkeeperLockStarved", Query: oldestWaits(), Is: fmt.Sprint("> ", starvedSeconds), For: 5 * time.Minute,
			Severity: Warning, Section: sectionStarved,
			Summary: "{{ $labels.lock_class }}: a request has waited for {{ $value | humanizeDuration }}",
			Description: "lockkeeper locks ls shows who waits and who is the root blocker, " +
				"lockkeeper locks why says what happens next and when.",
			proof: proof{
				bad:  series{oldestWait + `{job="lk",lock_class="db"}`: "960x10"},
				good: series{oldestWait + `{job="lk",lock_class="db"}`: "900x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "lock_class": "db"}, value: "16m 0s",
			},
		},
		{
			Name: "LockkeeperWaitsFail", Query: failureRatio(), Window: 30 * time.Minute, Is: fmt.Sprint("> ", failedShare),
			For: 10 * time.Minute, Severity: Warning, Section: sectionStarved,
			Summary: "{{ $labels.lock_class }}: {{ $value | humanizePercentage }} of the requests end without the lock",
			Description: "Their acquire timeouts are too short for what they wait for, somebody holds the lock for too long, " +
				"or ZooKeeper does not answer.",
			proof: proof{
				bad: series{waits + `_count{job="lk",lock_class="db",outcome="acquired"}`: "0+1x60", waits +
					`_count{job="lk",lock_class="db",outcome="timeout"}`: "0+1x60"},
				good: series{waits + `_count{job="lk",lock_class="db",outcome="acquired"}`: "0+3x60", waits +
					`_count{job="lk",lock_class="db",outcome="timeout"}`: "0+1x60"},
				at: 50 * time.Minute, labels: labels{"job": "lk", "lock_class": "db"}, value: "50%",
			},
		},
		{
			Name: "LockkeeperHoldTooLong", Query: leasesOver(), Is: "> 0", For: 15 * time.Minute, Severity: Warning,
			Section: sectionHold, Summary: "{{ $labels.lock_class }}: held for longer than was declared",
			Description: "The lease of a holder is over, and it goes on: its work hangs, or takes longer than it used to. " +
				"lockkeeper locks show says who it is.",
			proof: proof{
				bad:  series{overdue + `{job="lk",lock_class="db"}`: "1x20"},
				good: series{overdue + `{job="lk",lock_class="db"}`: "1x10 0 1x10"}, at: 16 * time.Minute,
				labels: labels{"job": "lk", "lock_class": "db"},
			},
		},
		{
			Name: "LockkeeperForcedPreemptions", Query: forcedRatio(), Window: time.Hour, Is: fmt.Sprint("> ", forcedShare),
			Severity: Warning, Section: sectionForced,
			Summary: "{{ $value | humanizePercentage }} of the preemptions end by force",
			Description: "Holders do not go in the time that they are given, and cannot put things right: " +
				"their cleanup timeouts are too short, or they do not obey their context.",
			proof: proof{
				bad: series{
					freed + `_count{job="lk",result="graceful"}`: "0+3x60", freed + `_count{job="lk",result="forced"}`: "0+1x60",
				},
				good: series{
					freed + `_count{job="lk",result="graceful"}`: "0+9x60", freed + `_count{job="lk",result="forced"}`: "0+1x60",
				},
				at: time.Hour, labels: labels{"job": "lk"}, value: "25%",
			},
		},
		{
			Name: "LockkeeperCleanupTimeout", Query: cleanupTimeouts(), Window: 15 * time.Minute, Is: "> 0", Severity: Warning,
			Section: sectionForced, Summary: "{{ $labels.lock_class }}: cleanup hooks do not end in time",
			Description: "What the hooks were to put right may be half done. Give them a longer cleanup_timeout, " +
				"or less to do.",
			proof: proof{
				bad: series{cleanups + `_count{job="lk",lock_class="db",result="lost"}`: "_x10 1x30"},
				good: series{
					cleanups + `_count{job="lk",lock_class="db",result="lost"}`:    "1x40",
					cleanups + `_count{job="lk",lock_class="db",result="overrun"}`: "_x10 0x30",
					cleanups + `_count{job="lk",lock_class="db",result="done"}`:    "0+1x40",
				},
				at: 15 * time.Minute, labels: labels{"job": "lk", "lock_class": "db"},
			},
		},
		{
			Name: "LockkeeperSeriesOverflow", Query: overflowing(), For: 10 * time.Minute, Severity: Info,
			Section: sectionOverflow, Summary: "{{ $labels.metric }}: there are more than can be told apart",
			Description: "Classes of locks or jobs beyond the limit are added up in one series. " +
				"Name classes by their declaration, not by each lock's own name.",
			proof: proof{
				bad: series{waits + `_count{job="lk",lock_class="_other",outcome="acquired"}`: "1x20"},
				good: series{waits + `_count{job="lk",lock_class="_other",outcome="acquired"}`: "0x20", waits +
					`_count{job="lk",lock_class="db",outcome="acquired"}`: "1x20"},
				at: 15 * time.Minute, labels: labels{"job": "lk", "metric": waits + "_count"},
			},
		},
	}
}

func sessionAlerts() []Alert {
	return []Alert{
		{
			Name: "LockkeeperNoSession", Query: sessionStates(), Is: "== 0", For: time.Minute, Severity: Critical,
			Section: sectionSession, Summary: "{{ $labels.instance }} has no ZooKeeper session",
			Description: "It can neither take locks nor keep those it had. Jobs wait until ZooKeeper answers. " +
				"lockkeeper doctor says what is wrong.",
			proof: proof{
				bad:  series{sessionState + `{job="lk",instance="a:1",state="connected"}`: "1x5 0x10"},
				good: series{sessionState + `{job="lk",instance="a:1",state="connected"}`: "1x5 0 1x10"}, at: 8 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
		{
			Name: "LockkeeperSessionExpired", Query: sessionsExpired(), Window: 15 * time.Minute, Is: "> 0", Severity: Warning,
			Section: sectionSession,
			Summary: "{{ $labels.instance }} has lost its ZooKeeper session, and the locks that it held",
			Description: "It did not reach ZooKeeper in time: a pause of the process, a network that is down, " +
				"or a session timeout that is too short.",
			proof: proof{
				bad:  series{expirations + `{job="lk",instance="a:1"}`: "0x10 1x30"},
				good: series{expirations + `{job="lk",instance="a:1"}`: "1x40"}, at: 15 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
		{
			Name: "LockkeeperDeadlineNear", Query: deadlineShares(), Window: 5 * time.Minute,
			Is: fmt.Sprint("< ", deadlineShare), Severity: Warning, Section: sectionSession,
			Summary: "{{ $labels.instance }} came near to losing its locks: {{ $value | humanizePercentage " +
				"}} of its session timeout was left", Description: "ZooKeeper has been silent for most of the session timeout. " +
				"Work under a lock is stopped before the session ends.",
			proof: proof{
				bad:  series{margin + `{job="lk",instance="a:1"}`: "8x5 2 8x10", timeout + `{job="lk",instance="a:1"}`: "16x20"},
				good: series{margin + `{job="lk",instance="a:1"}`: "8x5 4 8x10", timeout + `{job="lk",instance="a:1"}`: "16x20"},
				at:   8 * time.Minute, labels: labels{"job": "lk", "instance": "a:1"}, value: "12.5%",
			},
		},
	}
}

func daemonAlerts() []Alert { //nolint:funlen // a table: one entry for each alert
	return []Alert{
		{
			Name: "LockkeeperNoDaemon", Query: noDaemon(), For: 5 * time.Minute, Severity: Critical, Section: sectionBlind,
			Summary: "No daemon reports metrics",
			Description: "Prometheus scrapes no lockkeeper run: none is running, or it is not among the targets. " +
				"No daemon runs the jobs, or Prometheus does not see it.",
			proof: proof{
				bad: series{"up": "1x10"}, good: series{buildInfo + `{job="lk"}`: "1x10"}, at: 6 * time.Minute,
			},
		},
		{
			Name: "LockkeeperNoObserver", Query: noObserver(), For: 5 * time.Minute, Severity: Warning, Section: sectionBlind,
			Summary: "No data on holders and waiters",
			Description: "The daemons that watch all locks are gone, or do not watch. " +
				"Metrics of current holders and waiters are missing, and so are the alerts about starvation.",
			proof: proof{
				bad: series{"up": "1x10"}, good: series{visible + `{job="lk"}`: "0x10"}, at: 6 * time.Minute,
			},
		},
		{
			Name: "LockkeeperBlind", Query: clusterSeen(), Is: "== 0", For: 2 * time.Minute, Severity: Warning,
			Section: sectionBlind, Summary: "Daemons cannot see holders and waiters",
			Description: "Daemons watch all locks, but ZooKeeper does not answer them. " +
				"Metrics of current holders and waiters are missing, and so are the alerts about starvation.",
			proof: proof{
				bad:  series{visible + `{job="lk",instance="a:1"}`: "0x10", visible + `{job="lk",instance="b:1"}`: "1x3 0x10"},
				good: series{visible + `{job="lk",instance="a:1"}`: "0x10", visible + `{job="lk",instance="b:1"}`: "1x10"},
				at:   6 * time.Minute, labels: labels{"job": "lk"},
			},
		},
		{
			Name: "LockkeeperJobFails", Query: failuresOfJobs(), Window: time.Hour, Is: "> 0", Severity: Warning,
			Section: sectionJobs, Summary: "{{ $labels.job_name }} fails",
			Description: "A run of it has failed in the last hour. lockkeeper jobs history says how the last ones ended.",
			proof: proof{
				bad: series{ticks + `{job="lk",job_name="backup",outcome="failed"}`: "0x10 1x60"},
				good: series{ticks + `{job="lk",job_name="backup",outcome="ran"}`: "0x10 1x60", ticks +
					`{job="lk",job_name="backup",outcome="failed"}`: "1x70"},
				at: 15 * time.Minute, labels: labels{"job": "lk", "job_name": "backup"},
			},
		},
		{
			Name: "LockkeeperTicksMissed", Query: ticksMissed(), Window: time.Hour, Is: "> 0", Severity: Warning,
			Section: sectionJobs, Summary: "{{ $labels.job_name }} did not run when it should have",
			Description: "No daemon was there in time, or ZooKeeper did not answer. lockkeeper jobs history says which ticks.",
			proof: proof{
				bad: series{ticks + `{job="lk",job_name="backup",outcome="skipped",reason="missed"}`: "0x10 1x60"},
				good: series{
					ticks + `{job="lk",job_name="backup",outcome="skipped",reason="overlap"}`: "0x10 1x60",
					ticks + `{job="lk",job_name="backup",outcome="skipped",reason="missed"}`:  "1x70",
				},
				at: 15 * time.Minute, labels: labels{"job": "lk", "job_name": "backup"},
			},
		},
		{
			Name: "LockkeeperRunStuck", Query: stuckNow(), Is: "> 0", Severity: Warning, Section: sectionJobs,
			Summary: "{{ $labels.job_name }} was cancelled, and goes on",
			Description: "Its work ignores its context, and keeps its locks for as long as its session lasts. " +
				"The log has the stacks of its goroutines.",
			proof: proof{
				bad:  series{stuck + `{job="lk",job_name="backup"}`: "0x5 1x5"},
				good: series{stuck + `{job="lk",job_name="backup"}`: "0x10"}, at: 8 * time.Minute,
				labels: labels{"job": "lk", "job_name": "backup"},
			},
		},
		{
			Name: "LockkeeperConfigurationRefused", Query: configInForce(), Is: "== 0", For: 5 * time.Minute, Severity: Warning,
			Section: sectionOrdered, Summary: "{{ $labels.instance }} has refused its configuration file",
			Description: "What was in force before still is. The log has all problems, and lockkeeper config validate.",
			proof: proof{
				bad:  series{reloadOK + `{job="lk",instance="a:1"}`: "0x10"},
				good: series{reloadOK + `{job="lk",instance="a:1"}`: "1x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
		{
			Name: "LockkeeperOverridesFileRefused", Query: overridesFileRead(), Is: "== 0", For: 5 * time.Minute,
			Severity: Warning, Section: sectionOrdered, Summary: "{{ $labels.instance }} has refused its overrides file",
			Description: "The overrides before stay in force. The log has all problems.",
			proof: proof{
				bad:  series{overFile + `{job="lk",instance="a:1"}`: "0x10"},
				good: series{overFile + `{job="lk",instance="a:1"}`: "1x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
		{
			Name: "LockkeeperOverridesUnknown", Query: overridesTreeRead(), Is: "== 0", For: 5 * time.Minute, Severity: Warning,
			Section: sectionOrdered, Summary: "{{ $labels.instance }} does not know the overrides in ZooKeeper",
			Description: "They cannot be read, or not trusted. Those before stay in force.",
			proof: proof{
				bad:  series{overTree + `{job="lk",instance="a:1"}`: "0x10"},
				good: series{overTree + `{job="lk",instance="a:1"}`: "1x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
		{
			Name: "LockkeeperClockOff", Query: clockOffsets(), Is: "> 1", For: 5 * time.Minute, Severity: Warning,
			Section: sectionOrdered,
			Summary: "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off ZooKeeper's",
			Description: "If it is ahead, its ticks go by ZooKeeper's clock. If it is behind, " +
				"those that no other daemon runs are late. If all instances say so, ZooKeeper's leader is wrong.",
			proof: proof{
				bad:  series{clockOffset + `{job="lk",instance="a:1"}`: "-90x10"},
				good: series{clockOffset + `{job="lk",instance="a:1"}`: "0.5x10"}, at: 6 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"}, value: "1m 30s",
			},
		},
		{
			Name: "LockkeeperClockJumps", Query: clockJumps(), Window: time.Hour, Is: "> 0", Severity: Info,
			Section:     sectionOrdered,
			Summary:     "The clock of {{ $labels.instance }} has jumped, or the machine was suspended",
			Description: "Locks are safe: they do not depend on that clock. Ticks may have come early, late or not at all.",
			proof: proof{
				bad:  series{clockSteps + `{job="lk",instance="a:1"}`: "0x10 1x60"},
				good: series{clockSteps + `{job="lk",instance="a:1"}`: "1x60"}, at: 15 * time.Minute,
				labels: labels{"job": "lk", "instance": "a:1"},
			},
		},
	}
}
