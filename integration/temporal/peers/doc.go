// Package peers compares Lockkeeper's locks with the two that are built of
// Temporal's own means: the mutex workflow of Temporal's samples, and the permit
// that is a child workflow, of its documentation
// (docs.temporal.io/guides/lock-shared-resources). Each does the same work on
// the same server in the same run: events, signals, workflow tasks and time for
// one lock.
//
// An activity's lock is inside of its attempt, and takes less than the times scatter at which a Temporal server
// hands out its tasks. So its cost is reported for the attempts alone, by the worker's clock. Of the whole only the
// difference of rounds is reported, with its spread.
//
// The module of the samples cannot be had from Go's module proxy, so both are
// written anew here, after their protocols.
package peers
