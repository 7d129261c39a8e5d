package dashboards

// Metrics of jobs and of daemons, as Prometheus calls them.
const (
	ticks       = "lockkeeper_job_ticks_total"
	running     = "lockkeeper_job_running"
	stuck       = "lockkeeper_job_stuck"
	differing   = "lockkeeper_job_definitions_differing"
	stuckRuns   = "lockkeeper_job_stuck_runs_total"
	retries     = "lockkeeper_job_retries_total"
	againAfter  = "lockkeeper_job_preemptions_total"
	reloadOK    = "lockkeeper_config_last_reload_ok"
	reloadTime  = "lockkeeper_config_last_reload_time_seconds"
	generation  = "lockkeeper_config_generation"
	overriding  = "lockkeeper_overrides_active"
	overFile    = "lockkeeper_overrides_file_ok"
	overTree    = "lockkeeper_overrides_zookeeper_ok"
	clockOffset = "lockkeeper_clock_offset_seconds"
	clockSteps  = "lockkeeper_clock_steps_total"
	buildInfo   = "lockkeeper_build_info"
	anyOfOurs   = `{__name__=~"lockkeeper_.+"`
	isOverflow  = `otel_metric_overflow="true"`
	otherLocks  = waits + `_count{lock_class="_other"`
	missReasons = `reason=~"missed|undecided|unavailable"`
)

func ticksByOutcome() Query {
	return Query{
		Name: "ticks_by_outcome", Legend: "{{outcome}}", Unit: PerSec,
		Means: "How ticks and runs by hand ended, per second, each counted once in the cluster.",
		text:  `sum by ($per outcome) (rate(` + ticks + `{outcome!="taken",$jobs}[$window]))`,
	}
}

func failuresOfJobs() Query {
	return Query{
		Name: "job_failures", Legend: "{{job_name}}", Unit: Plain,
		Means: "Runs that failed.",
		text:  `sum by ($per job_name) (increase(` + ticks + `{outcome="failed",$jobs}[$span]))`,
	}
}

func ticksSkipped() Query {
	return Query{
		Name: "ticks_skipped", Legend: "{{job_name}} {{reason}}", Unit: PerSec,
		Means: "Ticks that did not run, and why, per second.",
		text:  `sum by ($per job_name, reason) (rate(` + ticks + `{outcome="skipped",$jobs}[$window])) > 0`,
	}
}

func ticksMissed() Query {
	return Query{
		Name: "ticks_missed", Legend: "{{job_name}}", Unit: Plain,
		Means: "Ticks skipped unintentionally: no daemon was running in time, or ZooKeeper did not answer.",
		text:  `sum by ($per job_name) (increase(` + ticks + `{outcome="skipped",` + missReasons + `,$jobs}[$span]))`,
	}
}

func runsNow() Query {
	return Query{
		Name: "runs_now", Legend: "{{job_name}}", Unit: Plain,
		Means: "Runs that go on, or wait for their locks.",
		text:  `sum by ($per job_name) (` + running + `{$jobs})`,
	}
}

func stuckNow() Query {
	return Query{
		Name: "stuck_now", Legend: "{{job_name}}", Unit: Plain,
		Means: "Runs that go on long after their work was cancelled.",
		text:  `sum by ($per job_name) (` + stuck + `{$jobs})`,
	}
}

func runsStuck() Query {
	return Query{
		Name: "runs_stuck", Legend: "{{job_name}}", Unit: Plain,
		Means: "Runs whose work went on long after it was cancelled.",
		text:  `sum by ($per job_name) (increase(` + stuckRuns + `{$jobs}[$span]))`,
	}
}

func runsRetried() Query {
	return Query{
		Name: "job_retries", Legend: "{{job_name}}", Unit: PerSec,
		Means: "Attempts that failed and were followed by another one, per second.",
		text:  `sum by ($per job_name) (rate(` + retries + `{$jobs}[$window]))`,
	}
}

func runsPreempted() Query {
	return Query{
		Name: "job_preemptions", Legend: "{{job_name}}", Unit: PerSec,
		Means: "Preemptions after which a run waited for its locks again, per second.",
		text:  `sum by ($per job_name) (rate(` + againAfter + `{$jobs}[$window]))`,
	}
}

func definitionsThatDiffer() Query {
	return Query{
		Name: "definitions_differing", Legend: "{{job_name}}", Unit: Plain,
		Means: "Jobs of which daemons have different definitions: two jobs of one name, or one that is being changed.",
		text:  `max by ($per job_name) (` + differing + `{$jobs}) > 0`,
	}
}

func configInForce() Query {
	return Query{
		Name: "config_ok", Legend: "{{instance}}", Unit: Plain,
		Means: "Whether what the configuration file says is in force.",
		text:  `min by ($per instance) (` + reloadOK + `{$jobs})`,
	}
}

func configRead() Query {
	return Query{
		Name: "config_read", Legend: "{{instance}}", Unit: Moment,
		Means: "When the configuration file was read last.",
		text:  `max by ($per instance) (` + reloadTime + `{$jobs}) * 1000`,
	}
}

func configGenerations() Query {
	return Query{
		Name: "config_generation", Legend: "{{instance}}", Unit: Plain,
		Means: "How many configurations were in force since the start of each daemon.",
		text:  `max by ($per instance) (` + generation + `{$jobs})`,
	}
}

func overridesInForce() Query {
	return Query{
		Name: "overrides", Legend: "{{kind}} {{source}}", Unit: Plain,
		Means: "Operators' overrides in force.",
		text:  `max by ($per kind, source) (` + overriding + `{$jobs}) > 0`,
	}
}

func overridesFileRead() Query {
	return Query{
		Name: "overrides_file_ok", Legend: "file, {{instance}}", Unit: Plain,
		Means: "Whether the overrides that were ordered are those in force.",
		text:  `min by ($per instance) (` + overFile + `{$jobs})`,
	}
}

func overridesTreeRead() Query {
	return Query{
		Name: "overrides_zookeeper_ok", Legend: "ZooKeeper, {{instance}}", Unit: Plain,
		Means: "Whether the overrides that were ordered are those in force.",
		text:  `min by ($per instance) (` + overTree + `{$jobs})`,
	}
}

func clockJumps() Query {
	return Query{
		Name: "clock_steps", Legend: "{{instance}}", Unit: Plain,
		Means: "How often the clock jumped, or the machine was suspended.",
		text:  `sum by ($per instance) (increase(` + clockSteps + `{$jobs}[$span]))`,
	}
}

func clockOffsets() Query {
	return Query{
		Name: "clock_offset", Legend: "{{instance}}", Unit: Seconds,
		Means: "How far the clock is from ZooKeeper's, ahead or behind.",
		text:  `max by ($per instance) (abs(` + clockOffset + `{$jobs}))`,
	}
}

func builds() Query {
	return Query{
		Name: "builds", Unit: Plain, Shape: Cells,
		Means: "Which daemon has which version.",
		text:  `max by ($per instance, version, commit, go_version) (` + buildInfo + `{$jobs})`,
	}
}

// overflowing is about what is bounded by us, and by the SDK of a program that
// exports by itself.
func overflowing() Query {
	return Query{
		Name: "overflowing", Legend: "{{metric}}", Unit: Plain,
		Means: "Series that stand for many, because there were too many of them: " +
			"what they say cannot be told apart any more.",
		text: `count by ($per metric) (label_replace(` + anyOfOurs + `,` + isOverflow + `,$jobs} or ` + otherLocks +
			`,$jobs} > 0, ` +
			`"metric", "$1", "__name__", "(.+)"))`,
	}
}

func noDaemon() Query {
	return Query{
		Name: "no_daemon", Legend: "no daemon", Unit: Plain,
		Means: "1 when no daemon is scraped.",
		text:  `absent(` + buildInfo + `{$jobs})`,
	}
}

func noObserver() Query {
	return Query{
		Name: "no_observer", Legend: "no observer", Unit: Plain,
		Means: "1 when no daemon reports holders and waiters.",
		text:  `absent(` + visible + `{$jobs})`,
	}
}
