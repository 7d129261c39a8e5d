package views

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Approval is a request whose holders have not gone in time, and about which
// people are asked.
type Approval struct {
	ID        string               `json:"id"`
	Scope     string               `json:"scope"`
	Job       string               `json:"job,omitempty"`
	Labels    map[string]string    `json:"labels,omitempty"`
	Requestor opstore.AuditParty   `json:"requestor"`
	Holders   []opstore.AuditParty `json:"holders"`
	Reason    string               `json:"reason,omitempty"`
	Waited    int64                `json:"waited_ms"`
	Opened    time.Time            `json:"opened"`
	Until     *time.Time           `json:"until"`
	AskedBy   string               `json:"asked_by"`
	Host      string               `json:"host"`
	PID       int                  `json:"pid"`
	Decision  *opstore.Decision    `json:"decision"`

	Kind      string              `json:"kind"`      // board or workflow
	Escalated []opstore.Escalated `json:"escalated"` // workflows alone
}

// NewApproval is a question, of the board in ZooKeeper or of a workflow.
func NewApproval(a opstore.Approval) Approval {
	v := Approval{
		Kind: "board", Escalated: append([]opstore.Escalated{}, a.Escalated...), Decision: a.Decision,
		ID: a.ID, Scope: a.Scope, Job: a.Job, Labels: a.Labels, Requestor: a.Requestor,
		Holders: append([]opstore.AuditParty{}, a.Holders...), Reason: a.Reason,
		Waited: a.Waited.Milliseconds(), Opened: a.Opened, AskedBy: a.By, Host: a.Host, PID: a.PID,
	}
	if !a.Until.IsZero() {
		v.Until = &a.Until
	}
	if a.Workflow {
		v.Kind = "workflow"
	}
	return v
}
