// Package peers compares Lockkeeper's locks with the two that are built of
// Temporal's own means: the mutex workflow of Temporal's samples, and the permit
// that is a child workflow, of its documentation
// (docs.temporal.io/guides/lock-shared-resources). Each does the same work on
// the same server in the same run: events, signals, workflow tasks and time for
// one lock.
//
// The module of the samples cannot be had from Go's module proxy, so both are
// written anew here, after their protocols.
package peers
