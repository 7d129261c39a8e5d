package dashboards

// What rules ask beside what panels do.

func overlapsByClass() Query {
	return Query{
		Name: "overlaps_by_class", Unit: Plain,
		Means: overlapsSeen().Means,
		text:  `sum by ($per lock_class) (increase(` + overlaps + `{$locks}[$span]))`,
	}
}

func clusterSeen() Query {
	return Query{
		Name: "cluster_seen", Unit: Plain,
		Means: "Whether any daemon sees holders and waiters.",
		text:  `max by ($per ) (` + visible + `{$jobs})`,
	}
}

// cleanupTimeouts counts those that were seen for the first time, too: a series that
// begins with 1 has no increase.
func cleanupTimeouts() Query {
	late := cleanups + `_count{result=~"overrun|lost",$locks}`
	return Query{
		Name: "cleanup_timeouts", Unit: Plain,
		Means: "Cleanups that were not done in time.",
		text: `sum by ($per lock_class) (increase(` + late + `[$span]) > 0 or (` + late + ` unless ` + late +
			` offset $span))`,
	}
}

func secondsWaited() Query {
	return Query{
		Name: "seconds_waited", Unit: Seconds,
		Means: "Seconds of waiting that have ended, per second.",
		text:  `sum by ($per lock_class) (rate(` + waits + `_sum{$locks}[$window]))`,
	}
}

func secondsHeld() Query {
	return Query{
		Name: "seconds_held", Unit: Seconds,
		Means: "Seconds of holding that have ended, per second.",
		text:  `sum by ($per lock_class) (rate(` + holds + `_sum{$locks}[$window]))`,
	}
}

func waitersOfClass() Query {
	return Query{
		Name: "waiters_of_class", Unit: Plain,
		Means: "Requests that wait for a lock, of whatever mode.",
		text:  `sum by ($per lock_class) (max by ($per lock_class, lock_mode) (` + waiters + `{$locks}))`,
	}
}
