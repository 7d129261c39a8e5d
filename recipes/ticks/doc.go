// Package ticks decides each tick of a schedule once in the cluster, and records what became of it.
//
// The idea: a job has one node, whose record says up to which instant its ticks are decided. To run a tick is to
// move that mark by a compare-and-set, so of all processes that want to, one does, whatever their clocks say. The
// same write records the outcome, so each tick has exactly one.
//
//	ledger := ticks.New(client, "")
//	claim, err := ledger.Claim(ctx, "backup", instant, ticks.Ask{})
//	if err == nil && claim.Verdict == ticks.Taken {
//		err = work(ctx)
//		_, err = ledger.Finish(ctx, claim.Run, ticks.End{Outcome: ticks.Ran})
//	}
//
// docs/protocol.md, section Ticks, has the record and its rules; docs/scheduling.md what users see of it.
package ticks
