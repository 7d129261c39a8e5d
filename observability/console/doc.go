// Package console is a web page on all locks: who holds, who waits, why, since
// when, and what happens next; and the same as JSON.
//
// The one idea: the server draws, and draws again. A page is HTML that works
// without JavaScript; with it, the same page is pushed anew over Server-Sent
// Events whenever what it shows has changed, and morphed into the one that is
// there, so that half-typed text survives. What it shows comes from a live.Board
// and from functions that hand out snapshots; nothing is kept here.
//
//	board, err := live.New(live.Options{Source: lookout, Now: client.Now})
//	c, err := console.New(console.Options{Board: board, Now: client.Now})
//	server := http.Server{Addr: "127.0.0.1:9480", Handler: c.Handler()}
//	server.RegisterOnShutdown(c.Close) // pages that are open end
//
// It is read-only, unless Options.Operator is there and a user has signed in
// (Options.Users, Options.Proxy): then it preempts holders, breaks locks,
// applies overrides, decides about approvals, pauses and runs jobs, each with a
// reason, in the name of that person.
//
// Answers have a strict content security policy, are never cached, and are given
// to none but browsers that have asked for a host of ours. The API is described
// by openapi.json, served as /api/v1/openapi.json.
package console
