package opstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// ApprovalRequest says what is to be decided: whether Requestor may take the
// lock by force.
//
// Long texts are cut, and of very many holders the last one says how many there
// are besides.
type ApprovalRequest struct {
	Scope     string            `json:"scope"`
	Job       string            `json:"job,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Requestor AuditParty        `json:"requestor"`
	Holders   []AuditParty      `json:"holders"`
	Reason    string            `json:"reason,omitempty"` // why the lock is wanted, for people

	// Waited is how long ago the holders were asked to release, and Deadline how
	// long from now on the requestor waits for the decision; 0: it has not said.
	// Rounded to milliseconds.
	Waited   time.Duration `json:"-"`
	Deadline time.Duration `json:"-"`
}

// fit returns the request with its texts cut: a question has to fit into a node,
// however many share the lock.
func (r ApprovalRequest) fit() ApprovalRequest {
	r.Reason, r.Job = words.Clip(znode.Valid(r.Reason), maxDecision), words.Clip(znode.Valid(r.Job), maxAuditName)
	r.Labels, r.Requestor = fitChanges(r.Labels), r.Requestor.fit()
	holders := make([]AuditParty, 0, min(len(r.Holders), maxAuditVictims+1))
	for i, h := range r.Holders {
		if i == maxAuditVictims {
			holders = append(holders, AuditParty{Owner: fmt.Sprintf("%d more", len(r.Holders)-i)})
			break
		}
		holders = append(holders, h.fit())
	}
	r.Holders = holders
	return r
}

// Approval is a question, on the board or in a workflow.
type Approval struct {
	ID string // "a-0000000012", see Workflow
	ApprovalRequest
	By       string    // Identity of the client that asks, as that one says
	Host     string    // of that client, as it says
	PID      int       // of that client, as it says
	Opened   time.Time // by the servers' clock
	Until    time.Time // Opened and the Deadline; zero without one
	Decision *Decision // nil: none yet

	// Workflow: it is not on the board, but in a workflow of a Temporal server
	// (temporal.Approvals), and outlives the process that asks. The clock is that
	// server's, and By unknown.
	Workflow  bool
	Escalated []Escalated // of a workflow: who was told that it waits
}

// Escalated is a person or channel that was notified of a waiting question.
type Escalated struct {
	At time.Time `json:"at"` // by the clock of the Temporal server
	To string    `json:"to"`
}

// Decision is an operator's answer.
type Decision struct {
	Approved bool `json:"approved"`

	// Force, with Approved: the lock is taken at once. Without, as soon as the
	// grace of its holders is over: nothing that they were promised is cut short.
	Force bool `json:"force"`

	By     string `json:"by"` // a person, or a rule
	Reason string `json:"reason"`

	// Identity is that of the client that decided, as that one says, and At when,
	// by the servers' clock. Both are filled in by Decide.
	Identity string    `json:"identity"`
	At       time.Time `json:"at"`
}

// Word says what was decided: approved, forced or denied.
func (d Decision) Word() string {
	switch {
	case d.Approved && d.Force:
		return "forced"
	case d.Approved:
		return "approved"
	}
	return "denied"
}

// NoApprovalError is returned for a question that is not there, or not any more:
// it was withdrawn, or the process that asked has gone.
type NoApprovalError struct {
	ID       string
	Workflow bool // Approval.Workflow

	Open []string // those that wait for a decision, if that was looked up

	// Sent: the decision was sent, ZooKeeper did not answer, and the question has
	// gone since: who asked may have acted on it.
	Sent bool
}

func (e *NoApprovalError) Error() string {
	if e.Sent {
		return fmt.Sprintf("approval %q may be decided: ZooKeeper did not answer to the decision, "+
			"and the question has gone since, maybe because of it; look what has become of the request: lockkeeper audit", e.ID)
	}
	why := "the request has got its lock, was given up, or its process has gone"
	if e.Workflow {
		why = "the request has got its lock, or was given up"
	}
	s := fmt.Sprintf("there is no approval %q, or not any more: %s", e.ID, why)
	if len(e.Open) > 0 {
		s += "; open are " + strings.Join(e.Open, ", ")
	}
	return s
}

// DecidedError is returned for a question that has been decided already.
type DecidedError struct {
	ID       string
	Decision Decision
}

func (e *DecidedError) Error() string {
	s := fmt.Sprintf("approval %q was %s already, by %s", e.ID, e.Decision.Word(), e.Decision.By)
	if e.Decision.Identity != "" {
		s += " (" + e.Decision.Identity + ")"
	}
	return fmt.Sprintf("%s at %s", s, e.Decision.At.Format(time.RFC3339))
}

// NotAQuestion says why a node does not belong on the board.
const NotAQuestion = "its name is no question's"
