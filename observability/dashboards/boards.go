package dashboards

// Limits that panels draw and alerts tell of.
const (
	starvedSeconds = 15 * 60 // no request should wait longer
	starvedLong    = 60 * 60
	deadlineShare  = 0.25 // of the session timeout; it is half and more when all is well
	forcedShare    = 0.1
	failedShare    = 0.25
)

func contention() Dashboard {
	return Dashboard{
		Name: "contention", Title: "Contention",
		About: "Which locks are fought over, how long requests wait, and how that ends.",
		Rows: []Row{
			{Title: "Now", Panels: []Panel{
				{Title: "Held", Kind: Stat, Queries: []Query{heldNow()}},
				{Title: "Waiting", Kind: Stat, Queries: []Query{waitingNow()}},
				{Title: "Oldest wait", Kind: Stat, Queries: []Query{oldestWaitNow()}, limits: []float64{
					starvedSeconds, starvedLong,
				}},
				{Title: "Oldest hold", Kind: Stat, Queries: []Query{oldestHoldNow()}},
				{Title: "Overlaps", Kind: Stat, Queries: []Query{overlapsSeen()}, limits: []float64{1}, noValue: "0"},
				{
					Title: "Forced preemptions", Kind: Stat, Queries: []Query{forcedRatio()},
					limits: []float64{forcedShare, 2 * forcedShare}, noValue: "none",
				},
			}},
			{Title: "Where time is lost", Panels: []Panel{
				{Title: "Lock-seconds lost per second", Kind: Timeseries, Queries: []Query{secondsLost()}, stacked: true},
				{Title: "Oldest wait", Kind: Timeseries, Queries: []Query{oldestWaits()}, limits: []float64{starvedSeconds}},
				{Title: "Waiting", Kind: Timeseries, Queries: []Query{waitersByClass()}, stacked: true},
				{Title: "Holding", Kind: Timeseries, Queries: []Query{holdersByClass()}, stacked: true},
			}},
			{Title: "Waits that ended", Panels: []Panel{
				{Title: "Wait", Kind: Timeseries, Queries: []Query{waitQuantile(0.5), waitQuantile(0.95), waitQuantile(0.99)}},
				{Title: "Wait, p95 by class", Kind: Timeseries, Queries: []Query{waitQuantileByClass(0.95)}},
				{Title: "Waits", Kind: Heatmap, Queries: []Query{waitBuckets()}, wide: true},
				{Title: "Outcomes", Kind: Timeseries, Queries: []Query{waitsByOutcome()}, stacked: true},
				{Title: "Without the lock", Kind: Timeseries, Queries: []Query{failuresByClass()}, stacked: true, noValue: "none"},
			}},
			{Title: "Holds", Panels: []Panel{
				{Title: "Utilisation", Kind: Timeseries, Queries: []Query{utilisation()}, narrow: true},
				{Title: "Ends", Kind: Timeseries, Queries: []Query{holdsByEnd()}, stacked: true, narrow: true},
				{Title: "Leases that are over", Kind: Timeseries, Queries: []Query{leasesOver()}, narrow: true},
			}},
		},
	}
}

func class() Dashboard {
	return Dashboard{
		Name: "class", Title: "Lock class", OneClass: true,
		About: "One class of locks: those of one declaration, whatever their names.",
		Rows: []Row{
			{Title: "Now", Panels: []Panel{
				{Title: "Held", Kind: Stat, Queries: []Query{heldNow()}},
				{Title: "Waiting", Kind: Stat, Queries: []Query{waitingNow()}},
				{Title: "Oldest wait", Kind: Stat, Queries: []Query{oldestWaitNow()}, limits: []float64{
					starvedSeconds, starvedLong,
				}},
				{Title: "Oldest hold", Kind: Stat, Queries: []Query{oldestHoldNow()}},
			}},
			{Title: "Waiting and holding", Panels: []Panel{
				{Title: "Wait", Kind: Timeseries, Queries: []Query{waitQuantile(0.5), waitQuantile(0.95), waitQuantile(0.99)}},
				{Title: "Hold", Kind: Timeseries, Queries: []Query{holdQuantile(0.5), holdQuantile(0.95), holdQuantile(0.99)}},
				{Title: "Wait and hold, mean", Kind: Timeseries, Queries: []Query{meanWait(), meanHold()}},
				{Title: "Waiting, and as many as Little's law expects", Kind: Timeseries, Queries: []Query{
					waitersSeen(), waitersExpected(),
				}},
				{Title: "Waits", Kind: Heatmap, Queries: []Query{waitBuckets()}, wide: true},
			}},
			{Title: "Who asks, and how it ends", Panels: []Panel{
				{Title: "Asked for by", Kind: Timeseries, Queries: []Query{waitsBySource()}, stacked: true, narrow: true},
				{Title: "Held by", Kind: Timeseries, Queries: []Query{heldBySource()}, stacked: true, narrow: true},
				{Title: "Outcomes", Kind: Timeseries, Queries: []Query{waitsByOutcome()}, stacked: true, narrow: true},
				{
					Title: "Without the lock", Kind: Timeseries, Queries: []Query{failureRatio()},
					limits: []float64{failedShare}, narrow: true,
				},
				{Title: "Ends of holds", Kind: Timeseries, Queries: []Query{holdsByEnd()}, stacked: true, narrow: true},
				{Title: "Leases that are over", Kind: Timeseries, Queries: []Query{leasesOver()}, narrow: true},
				{
					Title: "Preemptions", Kind: Timeseries,
					Queries: []Query{preemptionsOfClass(), preemptionsByClass()}, narrow: true,
				},
				{
					Title: "From preemption to free", Kind: Timeseries,
					Queries: []Query{freedQuantile(0.5), freedQuantile(0.99)}, narrow: true,
				},
				{
					Title: "How holders ended", Kind: Timeseries, Queries: []Query{preemptionsByResult()},
					stacked: true, narrow: true,
				},
				{Title: "Cleanup", Kind: Timeseries, Queries: []Query{cleanupQuantile(0.5), cleanupQuantile(0.99)}, narrow: true},
				{Title: "How cleanups ended", Kind: Timeseries, Queries: []Query{cleanupsByResult()}, stacked: true, narrow: true},
			}},
		},
	}
}

func preemption() Dashboard {
	return Dashboard{
		Name: "preemption", Title: "Preemption and cleanup",
		About: "Who preempts whom, how long that takes, and who was evicted.",
		Rows: []Row{
			{Title: "Who preempts whom", Panels: []Panel{
				{Title: "Holder and preemptor", Kind: Matrix, Queries: []Query{whoPreemptsWhom()}, matrix: [2]string{
					"victim_class", "preemptor_class",
				}},
				{Title: "Reasons", Kind: Timeseries, Queries: []Query{preemptionsByReason()}, stacked: true},
			}},
			{Title: "Until the lock is free", Panels: []Panel{
				{Title: "From preemption to free", Kind: Timeseries, Queries: []Query{freedQuantile(0.5), freedQuantile(0.99)}},
				{Title: "How holders ended", Kind: Timeseries, Queries: []Query{preemptionsByResult()}, stacked: true},
				{
					Title: "Forced", Kind: Stat, Queries: []Query{forcedRatio()},
					limits: []float64{forcedShare, 2 * forcedShare}, noValue: "none",
				},
			}},
			{Title: "Cleanup", Panels: []Panel{
				{Title: "Cleanup", Kind: Timeseries, Queries: []Query{cleanupQuantile(0.5), cleanupQuantile(0.99)}},
				{Title: "How cleanups ended", Kind: Timeseries, Queries: []Query{cleanupsByResult()}, stacked: true},
			}},
		},
	}
}

// connected is what values of 0 and 1 are called.
func connected(no, yes string) map[string]mapped {
	return map[string]mapped{"0": {no, "red"}, "1": {yes, "green"}}
}

func zookeeper() Dashboard {
	return Dashboard{
		Name: "zookeeper", Title: "ZooKeeper and sessions",
		About: "Whether processes have their sessions, how near they are to losing them, and how fast ZooKeeper answers.",
		Rows: []Row{
			{Title: "Sessions", Panels: []Panel{
				{Title: "Without a session", Kind: Stat, Queries: []Query{sessionsDown()}, limits: []float64{1}},
				{Title: "Expired", Kind: Stat, Queries: []Query{sessionsExpired()}, limits: []float64{1}},
				{
					Title: "Sessions", Kind: StateTimeline, Queries: []Query{sessionStates()}, states: connected("none", "has one"),
					limits: []float64{1}, below: true, wide: true,
				},
				{Title: "Time left", Kind: Timeseries, Queries: []Query{deadlineMargins()}, narrow: true},
				{
					Title: "Least left of the session timeout", Kind: Timeseries, Queries: []Query{deadlineShares()},
					limits: []float64{deadlineShare}, below: true, narrow: true,
				},
				{Title: "Reconnects", Kind: Timeseries, Queries: []Query{sessionReconnects()}, stacked: true, narrow: true},
			}},
			{Title: "Looking at all locks", Panels: []Panel{
				{Title: "Sees them", Kind: StateTimeline, Queries: []Query{
					locksSeen(),
				}, states: connected("blind", "sees them"), limits: []float64{1}, below: true, wide: true},
			}},
			{Title: "Requests", Panels: []Panel{
				{Title: "Requests", Kind: Timeseries, Queries: []Query{operationRate()}, stacked: true, narrow: true},
				{
					Title: "Time to answer", Kind: Timeseries,
					Queries: []Query{operationQuantile(0.5), operationQuantile(0.99)}, narrow: true,
				},
				{
					Title: "Not answered", Kind: Timeseries, Queries: []Query{operationFailures()}, stacked: true,
					narrow: true, noValue: "none",
				},
			}},
		},
	}
}

func jobs() Dashboard {
	inForce := connected("refused", "in force")
	return Dashboard{
		Name: "jobs", Title: "Jobs and daemons",
		About: "What became of ticks, and whether daemons do what they were told.",
		Rows: []Row{
			{Title: "Jobs", Panels: []Panel{
				{Title: "Ticks", Kind: Timeseries, Queries: []Query{ticksByOutcome()}, stacked: true},
				{Title: "Runs", Kind: Timeseries, Queries: []Query{runsNow()}, stacked: true},
				{Title: "Failed", Kind: Timeseries, Queries: []Query{failuresOfJobs()}, narrow: true},
				{Title: "Missed", Kind: Timeseries, Queries: []Query{ticksMissed()}, narrow: true},
				{
					Title: "Did not run", Kind: Timeseries, Queries: []Query{ticksSkipped()}, stacked: true,
					narrow: true, noValue: "none",
				},
				{Title: "Retried", Kind: Timeseries, Queries: []Query{runsRetried()}, narrow: true},
				{Title: "Preempted", Kind: Timeseries, Queries: []Query{runsPreempted()}, narrow: true},
				{Title: "Stuck", Kind: Timeseries, Queries: []Query{stuckNow()}, limits: []float64{1}, narrow: true},
			}},
			{Title: "Daemons", Panels: []Panel{
				{Title: "Versions", Kind: Table, Queries: []Query{builds()}},
				{
					Title: "Configuration", Kind: StateTimeline, Queries: []Query{configInForce()}, states: inForce,
					limits: []float64{1}, below: true,
				},
				{Title: "Read last", Kind: Stat, Queries: []Query{configRead()}},
				{Title: "Configurations since the start", Kind: Stat, Queries: []Query{configGenerations()}},
				{Title: "Runs that stuck", Kind: Stat, Queries: []Query{runsStuck()}, limits: []float64{1}},
				{
					Title: "Jobs of two definitions", Kind: Stat, Queries: []Query{definitionsThatDiffer()},
					limits: []float64{1}, noValue: "none",
				},
				{Title: "Clock steps", Kind: Stat, Queries: []Query{clockJumps()}, limits: []float64{1}},
				{Title: "Clock off by", Kind: Stat, Queries: []Query{clockOffsets()}, limits: []float64{1}},
				{Title: "Too many series", Kind: Stat, Queries: []Query{overflowing()}, limits: []float64{1}, noValue: "none"},
			}},
			{Title: "Overrides", Panels: []Panel{
				{Title: "In force", Kind: Timeseries, Queries: []Query{overridesInForce()}, stacked: true, noValue: "none"},
				{
					Title: "Known", Kind: StateTimeline, Queries: []Query{overridesFileRead(), overridesTreeRead()}, states: inForce,
					limits: []float64{1}, below: true,
				},
			}},
		},
	}
}
