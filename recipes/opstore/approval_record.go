package opstore

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

const approvalPrefix = "a-"

// maxDecision bounds each text of a question or a decision, in bytes.
const maxDecision = 1000

// IsApprovalID reports whether id can be the name of a question, and nothing else.
func IsApprovalID(id string) bool {
	digits, ok := strings.CutPrefix(id, approvalPrefix)
	if ok {
		_, ok = znode.ParseSequence(digits)
	}
	return ok
}

// approvalNode is a question as it stands in ZooKeeper.
type approvalNode struct {
	id   string
	rec  approvalRecord
	stat *zkclient.Stat
}

type approvalRecord struct {
	Format int    `json:"format"`
	GUID   string `json:"guid"`
	By     string `json:"by,omitempty"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	ApprovalRequest
	WaitedMS   int64           `json:"waited_ms"`
	DeadlineMS int64           `json:"deadline_ms,omitempty"`
	Decision   *decisionRecord `json:"decision,omitempty"`
}

type decisionRecord struct {
	Write    string `json:"write"` // the call that decided
	Approved bool   `json:"approved"`
	Force    bool   `json:"force,omitempty"`
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
	Identity string `json:"identity"`
}

func decodeApproval(data []byte) (rec approvalRecord, err error) {
	err = znode.Decode(data, &rec, &rec.Format)
	rec.Waited, rec.Deadline = time.Duration(rec.WaitedMS)*time.Millisecond,
		time.Duration(rec.DeadlineMS)*time.Millisecond
	return rec, err
}

func (d *decisionRecord) public(stat *zkclient.Stat) Decision {
	return Decision{
		Approved: d.Approved, Force: d.Force, By: d.By, Reason: d.Reason, Identity: d.Identity,
		At: time.UnixMilli(stat.Mtime).UTC(),
	}
}

func (n approvalNode) public() Approval {
	a := Approval{
		ID: n.id, ApprovalRequest: n.rec.ApprovalRequest, By: n.rec.By, Host: n.rec.Host, PID: n.rec.PID,
		Opened: time.UnixMilli(n.stat.Ctime).UTC(),
	}
	if a.Deadline > 0 {
		a.Until = a.Opened.Add(a.Deadline)
	}
	if n.rec.Decision != nil {
		a.Decision = new(n.rec.Decision.public(n.stat))
	}
	return a
}

// CheckApproval returns a *RecordError for data of a question that cannot be read.
func CheckApproval(data []byte) error {
	_, err := decodeApproval(data)
	return err
}
