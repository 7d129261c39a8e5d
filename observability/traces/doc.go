// Package traces shows the life of lock requests as OpenTelemetry spans.
//
// The one idea: a wait and a hold are spans of their own beside each other, below
// the caller's span. The wait ends early, so it can be looked at while the hold
// still lasts; its context is what travels through ZooKeeper with the request,
// and what other spans link to.
//
//	tracer := traces.New(provider)
//	guard, err := lockguard.New(client, tracer.Options()...)
//	scheduler.New(scheduler.Config{Begin: tracer.Run, …})
//
//	job.run                       from the claim of the tick until its end is recorded,
//	 │                            or whatever span the caller's context carries
//	 ├─ lock.wait                 from the request to the grant, or to the failure
//	 ├─ lock.hold                 from the grant to the release, or to the loss
//	 │   ├─ what the work does    in commands as well: they have it as TRACEPARENT
//	 │   └─ lock.cleanup          the hooks
//	 └─ lock.release              from the end of work and hooks until the lock is away
//
// The package needs the API of OpenTelemetry alone. Package sampling beside it has a
// sampler that keeps contention.
//
// # Links
//
// Each has an attribute lockkeeper.link.role. They point to the wait of the
// other side, and there is one on both sides, for most viewers show a link only
// where it starts. A span has at most MaxLinks of a role.
//
//	wait  blocked_by    who holds the lock while the request waits
//	wait  preempts      a holder that the request preempts
//	wait  takes_over    a holder whose lock the request took
//	hold  acquired_by   its own wait
//	hold  preempted_by  who asks this holder to go
//	hold  follows       who held the lock before, as far as the wait has seen it
//
// What comes through ZooKeeper is not trusted: it becomes a link, never a parent,
// and only if it is a valid traceparent of a span that is kept.
//
// # What a span says
//
// A hold that was preempted is no error: that is policy. Its attribute
// lockkeeper.end says how it ended, a lockguard.End; lockkeeper.outcome of a wait is a
// lockguard.Outcome. An error is a lock that was not acquired for another reason than
// the caller's own end, one that was lost, and a cleanup that failed or overran its
// grace.
//
// Spans contain scopes, owners and messages. They do not contain arguments of jobs,
// nor the errors of work and hooks, which may contain such arguments.
//
// Waits have the events queue.position, blocker.changed, displaced, delayed, requeued,
// preempt.sent, taken_over, frozen, thawed, overridden, approval.pending and
// approval.decided; holds have fence.issued, preempt.received, preempt.withdrawn,
// ctx.cancelled, cleanup.start, cleanup.end, cleanup.overrun, session.suspended,
// session.reconnected, session.lost, extended and downgraded.
package traces
