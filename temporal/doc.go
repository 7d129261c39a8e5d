// Package temporal runs the activities of Temporal workers under locks, and lets
// jobs start workflows on a Temporal server ([StartWorkflow]).
//
// The one idea: an attempt of an activity runs under a Hold, and all that Temporal
// hears of it are heartbeats and typed errors. No event is added to a history.
//
//	plugin, err := temporal.NewPlugin(guard, temporal.Declare("Import", temporal.Lock{
//		Requirement: lockguard.Requirement{Scope: "table/{{.}}"},
//	}))
//	if err != nil {
//		return err
//	}
//	w := worker.New(service, "orders", worker.Options{Plugins: []worker.Plugin{plugin}})
//
// The context of the activity is the lock: it carries the Hold, and ends within
// milliseconds when the lock is preempted. An activity that waits gives its slot to
// others, yields after a moment, and keeps its position for its next attempt ([Busy]).
//
// [WithLock] holds a lock for a workflow: a worker keeps it, without a slot, and the
// next one takes it over when that dies, with the same token. The activities are
// members of the hold; when the lock is preempted, they end at once, and the
// workflow cleans up under the lock ([OnPreempt]). docs/temporal.md has the details.
package temporal
