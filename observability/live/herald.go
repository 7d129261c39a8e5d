package live

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// herald says in words what only the process knows whose request it is; "": what
// has happened is seen in ZooKeeper as well.
func herald(event lockguard.Event) (EntryKind, string) {
	who := event.Owner
	switch e := event.Notice.(type) {
	case lockguard.NotAcquired:
		return EntryRefused, fmt.Sprintf("%s did not get the lock after %s: %v", who, Human(e.Waited), e.Err)
	case lock.Requeued:
		return EntryRefused, fmt.Sprintf("%s lost its position and queues again: %v", who, e.Cause)
	case lockguard.Frozen:
		return EntryOverride, fmt.Sprintf("%s is kept out by override %s: %s", who, e.Override.ID, e.Override.Reason)
	case lockguard.Thawed:
		return EntryOverride, fmt.Sprintf("%s asks again: no override keeps it out any more", who)
	case lockguard.Overridden:
		return EntryOverride, fmt.Sprintf("overrides have changed the terms of %s", who)
	case lockguard.Bypassed:
		return EntryOverride,
			fmt.Sprintf("%s runs without the lock, by override %s: %s", who, e.Override.ID, e.Override.Reason)
	case lockguard.ApprovalPending:
		return EntryApproval, fmt.Sprintf("%s asks whether it may take the lock by force, after %s", who, Human(e.Waited))
	case lockguard.ApprovalDecided:
		if e.Err != nil {
			return EntryApproval, fmt.Sprintf("%s may not take the lock by force: %v", who, e.Err)
		}
		return EntryApproval, fmt.Sprintf("%s may take the lock by force", who)
	case lock.AtRisk:
		return EntryAtRisk,
			fmt.Sprintf("ZooKeeper is silent: %s loses the lock in %s unless it answers", who, Human(e.Deadline.Sub(event.At)))
	case lock.RiskOver:
		return EntryAtRisk, fmt.Sprintf("ZooKeeper answers again: %s keeps the lock", who)
	case lockguard.CleanupStarted:
		return EntryCleanup, fmt.Sprintf("%s cleans up (%s): %v", who, words.Count(e.Hooks, "hook"), e.Cause)
	case lockguard.CleanupDone:
		if e.Err != nil {
			return EntryCleanup, fmt.Sprintf("%s has cleaned up in %s, with an error that its log tells", who, Human(e.Took))
		}
		return EntryCleanup, fmt.Sprintf("%s has cleaned up in %s", who, Human(e.Took))
	case lockguard.CleanupOverrun:
		what := "its hooks still run"
		if e.WorkRunning {
			what = "its work has not returned"
		}
		return EntryCleanup, fmt.Sprintf("the grace period of %s, %s, is over: %s", who, Human(e.Grace), what)
	case lockguard.Skipped:
		return EntrySkipped, fmt.Sprintf("%s did not run at %s: %s", e.Job, Clock(e.Instant), e.Reason)
	case lockguard.Stuck:
		return EntryStuck, fmt.Sprintf("%s was cancelled %s ago and has not returned: %v", e.Job, Human(e.For), e.Cause)
	}
	return "", ""
}
