// Package lockguard runs work under a lock: a [Requirement] goes in, a [Hold]
// comes out.
//
// The one idea: the context of the work is the lock. While it is alive the lock is
// held. It ends, with a typed cause, as soon as the holder is preempted
// ([PreemptedError], [LeaseExpiredError], [OverriddenError], [ShutdownError]) or has
// lost the lock ([LostError]). When the work has returned, its cleanup hooks run, still
// under the lock, and then the lock goes to the next waiter.
//
//	err := guard.Do(ctx, lockguard.Requirement{
//		Scope: "cluster/orders/resource/users",
//		Terms: priority.Terms{Priority: 10, CleanupTimeout: 30 * time.Second},
//	}, func(ctx context.Context) error {
//		hold, _ := lockguard.FromContext(ctx)
//		return compact(ctx, hold.Token()) // returns soon after ctx has ended
//	}, func(ctx context.Context) error {
//		return restore(ctx) // only after an interruption, at most 30s
//	})
//
// [priority.CauseOf] returns the kind of any of these errors; [End] says in one word how
// a hold ended, [Outcome] how a request did. [Guard.DoAll] takes several locks or none,
// and [Guard.Retrying] tries again. A nested request of the same scope shares the hold,
// through the context. Before a step that cannot be undone, ask [Hold.Check]. Each step
// is an [Event] for every [Observer]: logs, metrics, traces and audit read that stream.
package lockguard
