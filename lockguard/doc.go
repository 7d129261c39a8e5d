// Package lockguard runs work under a lock: a [Requirement] goes in, a [Hold]
// comes out.
//
// The one idea: the context of the work is the lock. While it is alive the
// lock is held. It ends, with a typed cause, as soon as the holder is preempted
// ([PreemptedError], [LeaseExpiredError], [OverriddenError], [ShutdownError]) or has lost the
// lock ([LostError]). When the work has returned, its cleanup hooks run, still
// under the lock, and then the lock goes to the next in line. [priority.CauseOf]
// returns the kind, the scope and the deadline of any of these errors, and of those of
// requests that are not granted.
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
// Hooks run after a loss as well, but under a context that has ended already:
// the lock may have another holder, and with it what a hook would touch. So look
// at the context first. A holder that may soon lose its lock to a silence of
// ZooKeeper is warned before ([Hold.AtRisk]): work that then stops with an error
// that wraps [ErrStopped], as commands do, has its hooks run while the lock is
// still held. A command as a hook (jobs.Command) is started neither after a loss
// nor in such a silence.
//
// Before a step that cannot be undone, and after a pause that the process may
// not have noticed yet, ask [Hold.Check].
//
// Work that needs several locks takes all of them or none ([Guard.DoAll]): they
// are acquired in one order everywhere, and the context of the work ends as
// soon as any of them is preempted or lost. [Guard.Retrying] tries again to acquire what it
// could not.
//
// A function that is called with that context and needs the same scope takes
// it again through the context: nested holds are counted and share one token.
// Without that context everybody is a stranger and queues.
//
// Work that goes on in another process takes its lock with it: a requirement with a
// Hold id leads to a Hold whose [Reference] others can join ([Guard.Join]) or, when
// its process has ended or is to be relieved, adopt ([Guard.Adopt]), with the same
// token. [Guard.Enqueue] makes a request in the background, which can be adopted
// while it waits.
//
// Operators have the last word ([WithOverrides]). A boost or a cap changes what a
// request asks for, also while it waits; a freeze takes it out of the queue until
// it ends; an extension gives requests and holders more time; with a bypass the
// work runs without the lock ([Info].Bypass). Holders are otherwise left alone,
// except by a lock that is taken for a person ([Guard.Override]): then the cause is
// an [OverriddenError]. What is done to holders against their will, and what
// overrides do, is on record before ([WithAuditor]). A polite request whose holders
// do not finish their cleanup can be decided about by people or rules
// ([WithApprover]).
//
// Every step of a lock's life is one [Event], a notice with its subject, sent to
// each [Observer]: logs, metrics, traces and audit are readers of that one stream.
package lockguard
