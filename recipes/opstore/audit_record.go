package opstore

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// An AuditAction is what an AuditEntry is about.
type AuditAction string

// What is audited.
const (
	AuditPreempt        AuditAction = "preempt"         // a holder was preempted: recorded by the preemptor
	AuditPreempted      AuditAction = "preempted"       // the same, recorded by the holder
	AuditTakeover       AuditAction = "takeover"        // holders are evicted by a request
	AuditLost           AuditAction = "lost"            // a holder lost its lock
	AuditBreak          AuditAction = "break"           // an operator breaks a lock
	AuditOverrideApply  AuditAction = "override.apply"  // an override comes into force, in ZooKeeper or by a file
	AuditOverrideClear  AuditAction = "override.clear"  // an override is taken back
	AuditOverrideExpire AuditAction = "override.expire" // an override has ended by itself
	// an override changes a request, keeps it out, pauses a job, takes a lock ...
	AuditOverrideAct  AuditAction = "override.act"
	AuditApprovalOpen AuditAction = "approval.open" // a polite preemption could not finish, an operator is to decide
	// AuditApprovalEscalate: no decision for some time, so others are notified.
	AuditApprovalEscalate AuditAction = "approval.escalate"

	AuditApprovalDecide AuditAction = "approval.decide" // approved or denied, by a person, a rule or the deadline

	AuditJobPause  AuditAction = "job.pause"  // a job is kept from running
	AuditJobResume AuditAction = "job.resume" // it may run again
	AuditJobRewind AuditAction = "job.rewind" // its mark, which a clock that was ahead has set, goes back
	AuditJobRun    AuditAction = "job.run"    // it is to run now, by hand
)

// An AuditPhase says whether an act is about to be done or has been.
type AuditPhase string

// The phases of an act. What needs no announcement has an outcome alone.
const (
	AuditIntent  AuditPhase = "intent"
	AuditOutcome AuditPhase = "outcome"
)

// Results of an outcome.
const (
	AuditDone   = "done"
	AuditFailed = "failed" // nothing has changed
)

// An AuditEntry is what is to be put on record: who did what to which object,
// why, and what it was before and after.
type AuditEntry struct {
	// Act joins the intent and the outcome of one act. Filled in when it is
	// empty.
	Act string `json:"act"`

	Action AuditAction `json:"action"`
	Phase  AuditPhase  `json:"phase"`
	Scope  string      `json:"scope,omitempty"`
	Job    string      `json:"job,omitempty"`

	// By is who did it: a person, or the owner of a request.
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`

	Override string `json:"override,omitempty"` // its ID
	Approval string `json:"approval,omitempty"` // its ID

	// Requestor is the request that acts, Victims are the holders it acts on.
	Requestor *AuditParty  `json:"requestor,omitempty"`
	Victims   []AuditParty `json:"victims,omitempty"`

	// Before and After say what has changed, by the names of the configuration.
	Before map[string]string `json:"before,omitempty"`
	After  map[string]string `json:"after,omitempty"`

	// Result is AuditDone or AuditFailed, Error why it failed. Outcomes only.
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// An AuditParty is a request or a holder as the audit trail names it.
type AuditParty struct {
	ID       string         `json:"id,omitempty"` // Contender.ID
	Owner    string         `json:"owner"`
	Host     string         `json:"host,omitempty"`
	PID      int            `json:"pid,omitempty"`
	Priority priority.Level `json:"priority"`
	Token    priority.Token `json:"token,omitempty"`
}

// An AuditRecord is an entry on record. Line has it as it is stored.
type AuditRecord struct {
	Seq  int64     `json:"seq"` // 1, 2, 3 ... without a gap
	At   time.Time `json:"at"`  // estimated server's clock
	Prev string    `json:"prev"`
	Hash string    `json:"hash"` // of all else, Prev included

	// ID tells it from a record that says the same.
	ID string `json:"id"`

	// Identity is what ZooKeeper knows of who wrote it, for example
	// "digest:ana"; "" for a client without credentials. Host and PID are what
	// that one says of itself.
	Identity string `json:"identity,omitempty"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`

	AuditEntry

	line []byte // as stored
}
