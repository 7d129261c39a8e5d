// Package views is what commands and the console show of jobs, groups, overrides
// and approvals, as JSON.
//
// The one idea: a field is called the same wherever it is shown. What lockkeeper
// jobs ls -o json prints is what /api/v1/jobs answers, since both are these
// structs. The names of fields are a promise to scripts; the views of locks are
// those of package live, which also says what a request does (live.Requests).
//
//	state, err := client.ticks.Ledger("").State(ctx, "backup")
//	err = json.NewEncoder(w).Encode(views.NewJob(state, requests, client.Now()))
package views
