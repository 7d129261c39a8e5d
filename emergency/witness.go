package emergency

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// OnRecord believes an approval that an operator has announced in the audit trail
// before giving it, as the program does (lockkeeper approvals). For a Forum that
// others than operators can reach: a client that cannot write under the root cannot
// approve anything there.
func OnRecord(client *lock.Client) Witness {
	return func(ctx context.Context, q lockguard.Question, answer lockguard.Answer) (bool, error) {
		log, err := client.AuditLog(0)
		if err != nil {
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, auditTimeout)
		defer cancel()
		since := client.Now().Add(-q.Patience - time.Hour) // the servers' clock is an estimate
		records, _, err := log.Read(ctx, opstore.AuditQuery{Since: since})
		if err != nil {
			return false, fmt.Errorf("the audit trail cannot be read: %w", err)
		}
		return announced(records, answer, client.KnowsOperator), nil
	}
}

// announced looks for the intent of an operator. Its outcome is not looked at: a
// client that got no reply does not know whether the answer has arrived.
func announced(records []opstore.AuditRecord, answer lockguard.Answer, isOperator func(identity string) bool) bool {
	word := opstore.Decision{Approved: true, Force: !answer.AfterGrace}.Word()
	for _, r := range records {
		if r.Action == opstore.AuditApprovalDecide && r.Phase == opstore.AuditIntent && r.Approval == answer.ID &&
			r.By == answer.By && r.After["decision"] == word && isOperator(r.Identity) {
			return true
		}
	}
	return false
}
