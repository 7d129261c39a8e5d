// Package connlimit bounds the connections of an HTTP server, so that no client can
// keep out other clients or the probes of an orchestrator.
//
// The one idea: a connection beyond a limit is still accepted, into a small reserve.
// There it gets one answer: a probe its own, everything else that there are too many.
// A full reserve drops its oldest connection for the next one, so that connections
// that send nothing do not fill it.
//
//	gate := connlimit.New(connlimit.Limits{Probes: []string{"/healthz", "/readyz"}})
//	server := &http.Server{}
//	gate.Attach(server)
//	server.Handler = gate.Handler(mux)
//	err := server.Serve(gate.Listener(listener))
package connlimit
