package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func verify(ctx context.Context, client *recipes.Client) (recipes.AuditReport, error) {
	log, err := client.AuditLog(0)
	if err != nil {
		return recipes.AuditReport{}, err
	}
	return log.Verify(ctx)
}

// checkAudit is about the chain of the audit trail.
func checkAudit(f *findings, x *facts, _ Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	switch {
	case x.auditErr != nil:
		todo := "lockkeeper audit verify takes its time"
		if errors.As(x.auditErr, new(*recipes.AccessError)) {
			todo = "see access"
		}
		f.skip("", x.auditErr.Error(), todo)
	case x.audit.Broken != nil:
		f.problem("", x.audit.Broken.Error(), "somebody has changed it: compare it with the copies that daemons have shipped (audit.file), and see who may write there")
	case x.audit.To == 0:
		f.ok("", "the audit trail has no records yet")
	default:
		f.ok("", fmt.Sprintf("the audit trail is unbroken from record %d to %d", x.audit.From, x.audit.To))
	}
}
