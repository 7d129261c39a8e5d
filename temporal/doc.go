// Package temporal runs the activities of Temporal workers under locks, and lets
// jobs start workflows on a Temporal server.
//
// # Locks on activities
//
// The one idea: an attempt of an activity runs under a Hold, and all that Temporal
// hears of it are heartbeats and typed errors. No event is added to a history.
//
//	plugin, err := temporal.NewPlugin(guard, temporal.Declare("Migrate", temporal.Lock{
//		Requirement: lockguard.Requirement{
//			Scope: "cluster/{{.Cluster}}/resource/{{arg 1}}",
//			Terms: priority.Terms{CleanupTimeout: 30 * time.Second},
//		},
//	}))
//	if err != nil {
//		return err
//	}
//	w := worker.New(service, "orders", worker.Options{Plugins: []worker.Plugin{plugin}})
//
// The context of the activity is the lock, as everywhere in this framework: it
// carries the Hold, and ends within milliseconds when the lock is preempted.
// An activity that waits gives its slot to others, yields after a moment, and
// keeps its place in the queue for its next attempt ([Busy]). See docs/temporal.md.
//
// # A lock over several activities
//
// [WithLock] holds a lock for a workflow: a worker keeps it, without a slot, and the
// next one takes it over when that dies, with the same token. The activities are
// members of the hold; when the lock is preempted, they end at once, and the
// workflow cleans up under the lock ([OnPreempt]).
//
// # Workflows as work of jobs
//
// The one idea: a tick is a workflow, by name. The id of the workflow that
// [StartWorkflow] starts is made of the job and the instant of its schedule,
// such as "nightly-2026-03-08T07:30:00Z". A second start for the same tick,
// after a lost reply or a crash, finds it there: that is a
// success, not a second run.
//
//	service, err := temporal.NewClient(temporal.Options{Address: "temporal.example.com:7233", Namespace: "orders"})
//	if err != nil {
//		return err
//	}
//	defer service.Close()
//	job := jobs.Job{
//		Name:         "nightly",
//		Schedule:     "30 7 * * *",
//		Requirements: []lockguard.Requirement{{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}},
//		Work: &temporal.StartWorkflow{
//			Client: service, Workflow: "Rebalance", TaskQueue: "orders", Args: []any{"all"}, Wait: true,
//		},
//	}
//
// Without Wait the work, and with it the lock, ends when the workflow has been
// started. With Wait it ends when the workflow is closed: the lock is held for
// as long as that takes, also while the Temporal server is away, and whatever
// ends the right to it cancels the workflow, which has the grace to close.
//
// The workflow itself may outlive the lock all the same: a worker that has
// stalled cannot be notified. So it gets the fencing token, as a memo
// ([OriginOf]), to give to whatever it writes to.
//
// # Payloads
//
// Inputs, results, signals, queries, updates, memos, headers, heartbeat details and the details of errors are JSON that
// outlives a version of this package: in histories, in schedules, and between workers of two versions. So tags and golden
// bytes fix it, not the names of Go fields:
//
//   - A reader ignores a member that it does not know.
//   - A new member is optional and left out when it is zero. Without it, everything is as it was before there was one.
//   - A member never changes its name, type, unit or meaning. The name of one that is gone is not used again.
//   - What this does not allow gets a new name: another activity, signal, query, update, header or memo. Workers know both
//     names until no history has the old one, and workflow.GetVersion says which of them a workflow uses.
//
// That name is the version. The payloads have no number: one that a reader does not know could only be refused, and new
// bytes would make every schedule on a server differ from what its job says.
package temporal
