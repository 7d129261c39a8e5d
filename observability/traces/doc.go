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
// sampler that keeps contention. Links and errors: [Tracer]; events and attributes:
// docs/observability.md.
package traces
