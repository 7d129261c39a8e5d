// Package actor holds a lock while a service serves: in an errgroup, or as an
// actor of github.com/oklog/run, which it does not import.
//
// The one idea: the service runs while the lock is held, and its context is the
// lock.
//
//	g, ctx := errgroup.WithContext(ctx)
//	g.Go(func() error { return actor.Run(ctx, guard, requirement, serve, actor.Again()) })
//
//	var group run.Group
//	group.Add(actor.New(guard, requirement, serve, actor.Again()))
//
// It waits for the lock as long as the requirement's acquire timeout says, for
// ever if that is unset. The context that serve is given ends when the lock is
// preempted, when its lease is over and another request wants it, when it is lost, and
// when the actor is stopped; context.Cause tells which. Without Again that is
// the end of the actor. With it serve is called again, with another context and
// a larger token, when the lock has been acquired again: what leads, leads again.
package actor
