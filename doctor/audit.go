package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func verify(ctx context.Context, client *lock.Client) (opstore.AuditReport, error) {
	log, err := client.AuditLog(0)
	if err != nil {
		return opstore.AuditReport{}, err
	}
	return log.Verify(ctx)
}

// checkAuditFile is about who may write to the copy of the trail, or choose where it
// is.
func checkAuditFile(f *findings, name string) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a daemon makes it
	case err != nil:
		f.skip(name, err.Error(), "ask as a user who may look at it")
	case info.Mode()&os.ModeSymlink != 0:
		f.problem(name, "is a symbolic link: daemons refuse it, since a change of the link would redirect what is written",
			"name the file that it leads to in audit.file")
	case info.Mode()&0o002 != 0:
		f.problem(name, fmt.Sprintf("is writable by all users (%s): daemons refuse it, and it shows nothing", info.Mode()),
			"save it elsewhere, see who has changed it, then chmod 600 "+name)
	case info.Mode().Perm()&0o027 != 0:
		f.warn(name, fmt.Sprintf("has the audit trail in it, and others may read or change it (%s)", info.Mode()),
			"chmod 600 "+name)
	default:
		f.ok(name, "is for its owner alone, or his group")
	}
}

// checkAudit is about the audit trail: its file, and its chain.
func checkAudit(f *findings, x *facts, o Options) {
	if o.Config != nil && o.Config.Audit.File != "" {
		checkAuditFile(f, o.Config.Audit.File)
	}
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	switch {
	case x.auditErr != nil:
		todo := "lockkeeper audit verify takes its time"
		if errors.As(x.auditErr, new(*lock.AccessError)) {
			todo = "see access"
		}
		f.skip("", x.auditErr.Error(), todo)
	case x.audit.Broken != nil:
		f.problem("", x.audit.Broken.Error(), "somebody has changed it: compare it with the copies that daemons have "+
			"shipped (audit.file), and see who may write there")
	case x.audit.To == 0:
		f.ok("", "the audit trail has no records yet")
	default:
		f.ok("", fmt.Sprintf("the audit trail is unbroken from record %d to %d", x.audit.From, x.audit.To))
	}
}
