// Package health answers the questions of orchestrators: is the process alive, and
// can it do its work.
//
// The one idea: those are different questions. A process whose ZooKeeper does not
// answer is alive, and a restart would not help it; it is only not ready. So [Alive]
// always answers with 200, and [Ready] with 200 or with 503 and every reason.
//
//	mux.Handle("GET /healthz", health.Alive(func() any { return status() }))
//	mux.Handle("GET /readyz", health.Ready(append(health.Session(client.Health),
//		health.Check{Name: "draining", Ask: func() error { return context.Cause(ctx) }},
//	)...))
//
// Both answer in JSON, at once, without asking ZooKeeper anything.
package health
