package dashboards

// Metrics of preemptions, as Prometheus calls them.
const (
	preempted = "lockkeeper_preemption_count_total"
	freed     = "lockkeeper_preemption_duration_seconds"
	cleanups  = "lockkeeper_cleanup_duration_seconds"
)

func whoPreemptsWhom() Query {
	return Query{
		Name: "who_preempts_whom", Unit: Plain, Shape: Cells,
		Means: "How often holders of a class (rows) were preempted by requests of another (columns).",
		text:  `sum by ($per victim_class, preemptor_class) (increase(` + preempted + `{$jobs}[$span])) > 0`,
	}
}

func preemptionsByReason() Query {
	return Query{
		Name: "preemptions_by_reason", Legend: "{{reason}}", Unit: PerSec,
		Means: "Why holders were preempted, per second.",
		text:  `sum by ($per reason) (rate(` + preempted + `{$jobs}[$window]))`,
	}
}

func preemptionsOfClass() Query {
	return Query{
		Name: "preemptions_of_class", Legend: "preempted by {{preemptor_class}}", Unit: PerSec,
		Means: "Preemptions of holders of this class, by the class of the preemptor, per second.",
		text:  `sum by (preemptor_class) (rate(` + preempted + `{victim_class="$class",$jobs}[$window]))`,
	}
}

func preemptionsByClass() Query {
	return Query{
		Name: "preemptions_by_class", Legend: "preempts {{victim_class}}", Unit: PerSec,
		Means: "Preemptions by requests of this class, by the class of the victim, per second.",
		text:  `sum by (victim_class) (rate(` + preempted + `{preemptor_class="$class",$jobs}[$window]))`,
	}
}

func preemptionsByResult() Query {
	return Query{
		Name: "preemptions_by_result", Legend: "{{result}}", Unit: PerSec,
		Means: "How preempted holders ended, per second.",
		text:  `sum by ($per result) (rate(` + freed + `_count{$locks}[$window]))`,
	}
}

func forcedRatio() Query {
	return Query{
		Name: "forced_ratio", Legend: "forced", Unit: Ratio,
		Means: "Of the preemptions that ended, those that ended by force: the holder was not done with its cleanup.",
		text: `sum by ($per ) (increase(` + freed + `_count{result="forced",$locks}[$span])) / ` +
			`sum by ($per ) (increase(` + freed + `_count{$locks}[$span]))`,
	}
}

func freedQuantile(q float64) Query {
	return Query{
		Name: "freed_" + percent(q), Legend: percent(q) + " {{result}}", Unit: Seconds,
		Means: "From the preemption until the preemptor has the lock.",
		text:  quantile(q, freed, "result, ", placeLocks),
	}
}

func cleanupQuantile(q float64) Query {
	return Query{
		Name: "cleanup_" + percent(q), Legend: "{{lock_class}} " + percent(q), Unit: Seconds,
		Means: "How long cleanup hooks took.",
		text:  quantile(q, cleanups, "lock_class, ", placeLocks),
	}
}

func cleanupsByResult() Query {
	return Query{
		Name: "cleanups_by_result", Legend: "{{lock_class}} {{result}}", Unit: PerSec,
		Means: "How cleanups ended, per second.",
		text:  `sum by ($per lock_class, result) (rate(` + cleanups + `_count{$locks}[$window]))`,
	}
}
