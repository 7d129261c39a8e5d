package dashboards

// Metrics of locks, as Prometheus calls them.
const (
	waits      = "lockkeeper_lock_wait_duration_seconds"
	holds      = "lockkeeper_lock_hold_duration_seconds"
	holders    = "lockkeeper_lock_holder_count"
	waiters    = "lockkeeper_lock_waiter_count"
	overdue    = "lockkeeper_lock_overdue"
	oldestWait = "lockkeeper_lock_oldest_wait_age_seconds"
	oldestHold = "lockkeeper_lock_oldest_hold_age_seconds"
	visible    = "lockkeeper_cluster_visible"
	overlaps   = "lockkeeper_overlap_detected_total"

	failed = `outcome!~"acquired|bypassed|cancelled"`
)

// What there is now. Each daemon looks at the whole cluster and says the same as
// the others, but for a moment: max, not sum.

func heldNow() Query {
	return Query{
		Name: "held_now", Legend: "held", Unit: Plain,
		Means: "Requests that hold a lock now, in the whole cluster.",
		text:  `sum(max by ($per lock_class, lock_mode) (` + holders + `{$locks}))`,
	}
}

func waitingNow() Query {
	return Query{
		Name: "waiting_now", Legend: "waiting", Unit: Plain,
		Means: "Requests that wait for a lock now, in the whole cluster.",
		text:  `sum(max by ($per lock_class, lock_mode) (` + waiters + `{$locks}))`,
	}
}

func oldestWaitNow() Query {
	return Query{
		Name: "oldest_wait_now", Legend: "oldest wait", Unit: Seconds,
		Means: "How long the one waits that has waited longest.",
		text:  `max(` + oldestWait + `{$locks})`,
	}
}

func oldestHoldNow() Query {
	return Query{
		Name: "oldest_hold_now", Legend: "oldest hold", Unit: Seconds,
		Means: "How long the lock is held that has been held longest.",
		text:  `max(` + oldestHold + `{$locks})`,
	}
}

func locksSeen() Query {
	return Query{
		Name: "locks_seen", Legend: "{{instance}}", Unit: Plain,
		Means: "Whether those who look at all locks see them. If not, nothing is said of the present.",
		text:  `max by ($per instance) (` + visible + `{$jobs})`,
	}
}

func overlapsSeen() Query {
	return Query{
		Name: "overlaps", Legend: "overlaps", Unit: Plain,
		Means: "How often a resource was given a token older than one it had seen: two believed that they held a lock. " +
			"It has to be 0.",
		text: `sum(increase(` + overlaps + `{$jobs}[$span]))`,
	}
}

func holdersByClass() Query {
	return Query{
		Name: "holders", Legend: "{{lock_class}} {{lock_mode}}", Unit: Plain,
		Means: "Requests that hold a lock.",
		text:  `max by ($per lock_class, lock_mode) (` + holders + `{$locks})`,
	}
}

func waitersByClass() Query {
	return Query{
		Name: "waiters", Legend: "{{lock_class}} {{lock_mode}}", Unit: Plain,
		Means: "Requests that wait for a lock.",
		text:  `max by ($per lock_class, lock_mode) (` + waiters + `{$locks})`,
	}
}

func oldestWaits() Query {
	return Query{
		Name: "oldest_wait", Legend: "{{lock_class}}", Unit: Seconds,
		Means: "How long the one waits that has waited longest: it grows while nothing moves.",
		text:  `max by ($per lock_class) (` + oldestWait + `{$locks})`,
	}
}

func leasesOver() Query {
	return Query{
		Name: "leases_over", Legend: "{{lock_class}}", Unit: Plain,
		Means: "Holders whose lease is over: the work takes longer than was declared, " +
			"and no other request has asked for the lock.",
		text: `max by ($per lock_class) (` + overdue + `{$locks})`,
	}
}

// What has happened: each process tells of its own requests when they end. Sum.

func secondsLost() Query {
	return Query{
		Name: "seconds_lost", Legend: "{{lock_class}}", Unit: Seconds,
		Means: "Seconds of waiting that have ended, per second: where time is lost. " +
			"2 is two requests that wait all of the time. The ten worst.",
		text: `topk(10, sum by ($per lock_class) (rate(` + waits + `_sum{$locks}[$window])))`,
	}
}

func waitQuantile(q float64) Query {
	return Query{
		Name: "wait_" + percent(q), Legend: percent(q), Unit: Seconds,
		Means: "How long requests waited that ended, however they did.",
		text:  `histogram_quantile(` + number(q) + `, sum by (le) (rate(` + waits + `_bucket{$locks}[$window])))`,
	}
}

func waitQuantileByClass(q float64) Query {
	return Query{
		Name: "wait_" + percent(q) + "_by_class", Legend: "{{lock_class}}", Unit: Seconds,
		Means: "How long requests waited that ended, however they did.",
		text:  quantile(q, waits, "lock_class, ", placeLocks),
	}
}

func waitBuckets() Query {
	return Query{
		Name: "wait_buckets", Legend: "{{le}}", Unit: Seconds, Shape: Buckets,
		Means: "How many requests waited how long. The dots are traces, where Prometheus keeps exemplars.",
		text:  `sum by (le) (increase(` + waits + `_bucket{$locks}[$window]))`,
	}
}

func waitsByOutcome() Query {
	return Query{
		Name: "waits_by_outcome", Legend: "{{outcome}}", Unit: PerSec,
		Means: "How requests ended, per second.",
		text:  `sum by ($per outcome) (rate(` + waits + `_count{$locks}[$window]))`,
	}
}

func failuresByClass() Query {
	return Query{
		Name: "failures_by_class", Legend: "{{lock_class}} {{outcome}}", Unit: PerSec,
		Means: "Requests that ended without the lock, per second. Who gave up of its own accord is not among them.",
		text:  `sum by ($per lock_class, outcome) (rate(` + waits + `_count{` + failed + `,$locks}[$window])) > 0`,
	}
}

func failureRatio() Query {
	const every = `sum by ($per lock_class) (rate(` + waits + `_count{$locks}[$window]))`
	return Query{
		Name: "failure_ratio", Legend: "{{lock_class}}", Unit: Ratio,
		Means: "Of the requests that ended, the share of those that ended without the lock. " +
			"Who gave up of its own accord is not among them.",
		text: `(sum by ($per lock_class) (rate(` + waits + `_count{` + failed + `,$locks}[$window])) or 0 * ` +
			every + `) / ` + every,
	}
}

func waitsBySource() Query {
	return Query{
		Name: "waits_by_source", Legend: "{{source}} {{lock_mode}}", Unit: PerSec,
		Means: "Who asked for the lock, per second.",
		text:  `sum by (source, lock_mode) (rate(` + waits + `_count{$locks}[$window]))`,
	}
}

func utilisation() Query {
	return Query{
		Name: "utilisation", Legend: "{{lock_class}}", Unit: Plain,
		Means: "Seconds of holding that have ended, per second: 1 is one lock that is held all of the time. " +
			"Work that is longer than the window shows as a peak when it ends.",
		text: `topk(10, sum by ($per lock_class) (rate(` + holds + `_sum{$locks}[$window])))`,
	}
}

func heldBySource() Query {
	return Query{
		Name: "held_by_source", Legend: "{{source}} {{lock_mode}}", Unit: Plain,
		Means: "Seconds of holding that have ended, per second, by who asked for the lock.",
		text:  `sum by (source, lock_mode) (rate(` + holds + `_sum{$locks}[$window]))`,
	}
}

func holdsByEnd() Query {
	return Query{
		Name: "holds_by_end", Legend: "{{end}}", Unit: PerSec,
		Means: "How holds ended, per second.",
		text:  `sum by ($per end) (rate(` + holds + `_count{$locks}[$window]))`,
	}
}

func holdQuantile(q float64) Query {
	return Query{
		Name: "hold_" + percent(q), Legend: percent(q), Unit: Seconds,
		Means: "How long the lock was held, of the holds that ended.",
		text:  `histogram_quantile(` + number(q) + `, sum by (le) (rate(` + holds + `_bucket{$locks}[$window])))`,
	}
}

func meanWait() Query {
	return Query{
		Name: "wait_mean", Legend: "wait", Unit: Seconds,
		Means: "How long requests waited on average.",
		text:  mean(waits, "lock_class", placeLocks),
	}
}

func meanHold() Query {
	return Query{
		Name: "hold_mean", Legend: "hold", Unit: Seconds,
		Means: "How long the lock was held on average.",
		text:  mean(holds, "lock_class", placeLocks),
	}
}

func waitersSeen() Query {
	return Query{
		Name: "waiters_seen", Legend: "seen", Unit: Plain,
		Means: "Requests that wait, on average, as they were seen.",
		text:  `sum(max by ($per lock_class, lock_mode) (avg_over_time(` + waiters + `{$locks}[$window])))`,
	}
}

// waitersExpected is Little's law: arrivals per second times the mean wait.
func waitersExpected() Query {
	return Query{
		Name: "waiters_expected", Legend: "by Little's law", Unit: Plain,
		Means: "And as many as arrivals times their mean wait make. More seen than that: they wait and do not get on.",
		text: `sum(rate(` + waits + `_count{$locks}[$window])) * ` +
			`(sum(rate(` + waits + `_sum{$locks}[$window])) / sum(rate(` + waits + `_count{$locks}[$window])))`,
	}
}
