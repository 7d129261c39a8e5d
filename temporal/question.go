package temporal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// ApprovalQuestion is what an ApprovalWorkflow is given: whether Requestor may
// take the lock of Scope from Holders by force. It is in the memo of the
// workflow, too (ApprovalMemoKey), so that it can be listed while no worker runs.
type ApprovalQuestion struct {
	ID        string            `json:"id"`   // "w-3f29c1d07ab41122", see ApprovalID
	Root      string            `json:"root"` // of the locks, with the chroot: which cluster it is about
	Scope     string            `json:"scope"`
	Job       string            `json:"job,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Requestor ApprovalParty     `json:"requestor"`
	Holders   []ApprovalParty   `json:"holders"`
	Reason    string            `json:"reason,omitempty"` // why the lock is wanted, for people

	WaitedMS   int64 `json:"waited_ms"`   // since the first of the holders was preempted
	DeadlineMS int64 `json:"deadline_ms"` // from the start of the workflow on; then it is denied

	Escalation []EscalationStep `json:"escalation,omitempty"`

	Host string `json:"host"` // of the process that has asked first, as it says
	PID  int    `json:"pid"`
}

// ApprovalParty is a opstore.AuditParty as an ApprovalQuestion has it.
type ApprovalParty struct {
	ID       string          `json:"id,omitempty"` // of the contender
	Owner    string          `json:"owner"`
	Host     string          `json:"host,omitempty"`
	PID      int             `json:"pid,omitempty"`
	Priority priority.Level  `json:"priority"`
	Token    lockguard.Token `json:"token,omitempty,string"`
}

// An EscalationStep says who is notified of a question without an answer.
type EscalationStep struct {
	AfterMS int64  `json:"after_ms"` // since the workflow was started
	To      string `json:"to"`       // whom to tell: a name for people and for the activity
}

// Deadline is how long people have, from the start of the workflow on.
func (q ApprovalQuestion) Deadline() time.Duration {
	return time.Duration(q.DeadlineMS) * time.Millisecond
}

// After is how long after the start of the workflow that person is notified.
func (s EscalationStep) After() time.Duration { return time.Duration(s.AfterMS) * time.Millisecond }

// What a question has room for.
const (
	maxApprovalText  = 1000 // bytes
	maxApprovalNames = 20   // holders; the last one says how many there are besides
)

// newQuestion is what people are asked about a pending request.
func newQuestion(root string, q lockguard.Question, escalation []EscalationStep) ApprovalQuestion {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r := q.Request()
	a := ApprovalQuestion{
		Root: root, Scope: r.Scope, Job: r.Job, Labels: r.Labels, Reason: shorten(r.Reason),
		Requestor: ApprovalParty(r.Requestor), WaitedMS: r.Waited.Milliseconds(), DeadlineMS: r.Deadline.Milliseconds(),
		Escalation: escalation, Host: host, PID: os.Getpid(),
	}
	names := make([]string, 0, len(r.Holders))
	for i, h := range r.Holders {
		names = append(names, h.ID)
		switch {
		case i < maxApprovalNames:
			h.Owner = shorten(h.Owner)
			a.Holders = append(a.Holders, ApprovalParty(h))
		case i == maxApprovalNames:
			a.Holders = append(a.Holders, ApprovalParty{Owner: fmt.Sprintf("%d more", len(r.Holders)-i)})
		}
	}
	a.ID = ApprovalID(root, a.Scope, a.requestor(), names)
	return a
}

// Approval is the question as the rest of the product knows it, without the times
// of its workflow.
func (q ApprovalQuestion) Approval() opstore.Approval {
	return opstore.Approval{
		ID: q.ID, Host: q.Host, PID: q.PID, Workflow: true,
		ApprovalRequest: opstore.ApprovalRequest{
			Scope: q.Scope, Job: q.Job, Labels: q.Labels, Requestor: opstore.AuditParty(q.Requestor),
			Holders: parties(q.Holders), Reason: q.Reason,
			Waited: time.Duration(q.WaitedMS) * time.Millisecond, Deadline: q.Deadline(),
		},
	}
}

func parties(all []ApprovalParty) (parties []opstore.AuditParty) {
	for _, p := range all {
		parties = append(parties, opstore.AuditParty(p))
	}
	return parties
}

// requestor is who asks, whatever process it runs in.
func (q ApprovalQuestion) requestor() string {
	if q.Job != "" {
		return "job " + q.Job
	}
	return "owner " + q.Requestor.Owner
}

// approvalPrefix tells the approvals of workflows from those of the board in
// ZooKeeper, "a-0000000012".
const approvalPrefix = "w-"

// IsApprovalID reports whether an approval is that of a workflow.
func IsApprovalID(id string) bool {
	digits, ok := strings.CutPrefix(id, approvalPrefix)
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == 2*approvalBytes
}

const approvalBytes = 8

// ApprovalID names a question. The same requestor that asks about the same
// holders of the same lock asks the same question, whatever process it is by
// then: a decision about these holders never applies to later ones.
func ApprovalID(root, scope, requestor string, holders []string) string {
	hash := sha256.New()
	for _, text := range append([]string{root, scope, requestor}, slices.Sorted(slices.Values(holders))...) {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return approvalPrefix + hex.EncodeToString(hash.Sum(nil)[:approvalBytes])
}

// approvalWorkflowID is where a question is asked.
func approvalWorkflowID(id string) string { return "lockkeeper-approval-" + id }

// shorten cuts a text at the room there is for it.
func shorten(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxApprovalText {
		return text
	}
	return words.Clip(text, maxApprovalText-len("…"))
}
