// Package httpguard serves HTTP requests under locks.
//
// The one idea: the context of the request is the lock.
//
//	mux.Handle("POST /rebuild", httpguard.Handler(guard, lockguard.Requirement{Scope: "shop/index"}, rebuild))
//	mux.Handle("PUT /orders/{id}", httpguard.HandlerFor(guard, func(r *http.Request) ([]lockguard.Requirement, error) {
//		return []lockguard.Requirement{{Scope: "shop/orders/" + r.PathValue("id")}}, nil
//	}, put))
//
// The handler finds its hold, and with it the fencing token, through
// lockguard.FromContext(r.Context()). That context ends, with its cause, when the
// request is preempted, when its lock is lost, and when the client goes away. A
// handler adds its cleanup to the hold (lockguard.Hold.OnCleanup).
//
// # What the client sees
//
// A request that does not get its lock is answered 423 Locked, or 503 Service
// Unavailable when ZooKeeper does not answer, with Retry-After and a problem
// document (RFC 9457). An interrupted one whose handler has written nothing is
// answered 503 in the same way.
package httpguard
