package dashboards

// Metrics of sessions and of ZooKeeper, as Prometheus calls them.
const (
	sessionState = "lockkeeper_session_state"
	expirations  = "lockkeeper_session_expirations_total"
	reconnects   = "lockkeeper_session_reconnects_total"
	margin       = "lockkeeper_session_deadline_margin_seconds"
	timeout      = "lockkeeper_session_timeout_seconds"
	operations   = "lockkeeper_zk_operation_duration_seconds"
)

func sessionStates() Query {
	return Query{
		Name: "session_state", Legend: "{{instance}}", Unit: Plain,
		Means: "Whether each process has its ZooKeeper session.",
		text:  `max by ($per instance) (` + sessionState + `{state="connected",$jobs})`,
	}
}

func sessionsDown() Query {
	return Query{
		Name: "sessions_down", Legend: "without a session", Unit: Plain,
		Means: "Processes that have no ZooKeeper session now.",
		text:  `count(max by ($per instance) (` + sessionState + `{state="connected",$jobs}) == 0) or vector(0)`,
	}
}

func deadlineMargins() Query {
	return Query{
		Name: "deadline_margin", Legend: "{{instance}}", Unit: Seconds,
		Means: "How long each process may still hold its locks if ZooKeeper says nothing any more. At 0 they are lost.",
		text:  `min by ($per instance) (` + margin + `{$jobs})`,
	}
}

func deadlineShares() Query {
	return Query{
		Name: "deadline_share", Legend: "{{instance}}", Unit: Ratio,
		Means: "The least that was left of the session timeout. At 0 the locks of the process are lost.",
		text: `min by ($per instance) (min_over_time(` + margin + `{$jobs}[$window])) / ` +
			`min by ($per instance) (` + timeout + `{$jobs})`,
	}
}

func sessionsExpired() Query {
	return Query{
		Name: "sessions_expired", Legend: "{{instance}}", Unit: Plain,
		Means: "Sessions that ended against the will of their process, which lost its locks.",
		text:  `sum by ($per instance) (increase(` + expirations + `{$jobs}[$span]))`,
	}
}

func sessionReconnects() Query {
	return Query{
		Name: "session_reconnects", Legend: "{{instance}}", Unit: PerSec,
		Means: "Connections that were made anew, per second. The session goes on meanwhile.",
		text:  `sum by ($per instance) (rate(` + reconnects + `{$jobs}[$window]))`,
	}
}

func operationRate() Query {
	return Query{
		Name: "zk_operations", Legend: "{{op}}", Unit: PerSec,
		Means: "What is asked of ZooKeeper, per second.",
		text:  `sum by ($per op) (rate(` + operations + `_count{$jobs}[$window]))`,
	}
}

func operationQuantile(q float64) Query {
	return Query{
		Name: "zk_operation_" + percent(q), Legend: "{{op}} " + percent(q), Unit: Seconds,
		Means: "How long ZooKeeper takes to answer.",
		text:  quantile(q, operations, "op, ", placeJobs),
	}
}

func operationFailures() Query {
	return Query{
		Name: "zk_failures", Legend: "{{op}}", Unit: PerSec,
		Means: "Requests that ZooKeeper did not answer before the connection ended, per second. " +
			"That something is not there, or has changed, is an answer.",
		text: `sum by ($per op) (rate(` + operations + `_count{result="lost",$jobs}[$window])) > 0`,
	}
}
