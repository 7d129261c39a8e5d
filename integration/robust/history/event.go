package history

import "time"

// An Event is one line of a history. Which fields are set depends on the Kind;
// times are those of Now.
type Event struct {
	At     time.Duration `json:"at"`
	Kind   Kind          `json:"kind"`
	Client string        `json:"client"` // the process: a name, and the how manieth of that name it is
	Who    string        `json:"who,omitempty"`

	Scope    string `json:"scope,omitempty"`
	Shared   bool   `json:"shared,omitempty"`
	Guarded  bool   `json:"guarded,omitempty"` // by package lockguard
	Priority int32  `json:"priority,omitempty"`
	Terms    string `json:"terms,omitempty"` // the rest of the request, for people

	Request *Request `json:"request,omitempty"` // of Invoked: the rest, for the judge

	Token    int64         `json:"token,omitempty"`
	From     time.Duration `json:"from,omitempty"`     // when it began
	Deadline time.Duration `json:"deadline,omitempty"` // of Asked: end of the grace
	Reason   string        `json:"reason,omitempty"`
	By       string        `json:"by,omitempty"`     // Who
	Of       []string      `json:"of,omitempty"`     // Whos
	Tokens   []int64       `json:"tokens,omitempty"` // of these
	Count    int64         `json:"count,omitempty"`  // of writes to the resource, this one included
	Late     bool          `json:"late,omitempty"`   // done on purpose after the hold had ended
	Err      string        `json:"err,omitempty"`
}

// A Request is what was asked for, besides the scope, the mode and the priority.
type Request struct {
	Lease      time.Duration  `json:"lease"`
	Cleanup    time.Duration  `json:"cleanup,omitempty"`
	MinRuntime time.Duration  `json:"min_runtime,omitempty"`
	Waiting    *time.Duration `json:"waiting,omitempty"`
	Acquire    *time.Duration `json:"acquire,omitempty"`
	GiveUp     time.Duration  `json:"give_up,omitempty"` // when its context ends, counted from Invoked; 0: never
	Delta      int            `json:"delta,omitempty"`
	Forceful   bool           `json:"forceful,omitempty"`
	Never      bool           `json:"never,omitempty"` // preempts no holder
}

// Kind is what an Event is about.
type Kind string

// What processes write down. All but the first four are about the request Who.
const (
	Started Kind = "started"
	Stopped Kind = "stopped" // in good order; Err: what Close said
	Stalled Kind = "stalled" // the process did not run from From on, though the suite had not stopped it
	Cannot  Kind = "cannot"  // the process gives up: Err

	Invoked Kind = "invoked" // Acquire or Do is called
	Granted Kind = "granted" // Acquire has returned, or the work begins
	Tokened Kind = "tokened" // the token is known
	Failed  Kind = "failed"  // Acquire or Do has returned, without a grant; Reason: one of the answers

	Queued    Kind = "queued"    // it stands in the queue
	Requeued  Kind = "requeued"  // its session has ended, it begins anew
	Took      Kind = "took"      // took over from Of
	Asked     Kind = "asked"     // is preempted, by By
	Withdrawn Kind = "withdrawn" // is asked no more
	Lost      Kind = "lost"      // learns that the lock is no longer held

	Extending   Kind = "extending" // Extend is called, for a lease that ends no earlier than Deadline
	Downgrading Kind = "downgrading"
	Downgraded  Kind = "downgraded"
	Done        Kind = "done"      // the work has returned, or a hook
	Releasing   Kind = "releasing" // Release is called
	Released    Kind = "released"  // it has returned, or Do has; Reason: one of the answers

	Wrote   Kind = "wrote"   // the resource has accepted a write that began at From
	Refused Kind = "refused" // likewise, refused it
	Read    Kind = "read"    // likewise, told Count
)

// What the suite adds about processes.
const (
	Killed  Kind = "killed"  // is about to be killed
	Paused  Kind = "paused"  // was stopped from From to At; At 0: still is
	Expired Kind = "expired" // its session was closed by others, from From to At
	Slow    Kind = "slow"    // of no process: a server was slow to answer, from From to At
	Skewed  Kind = "skewed"  // of no process: the servers' wall clocks disagreed, from From to At
	Silent  Kind = "silent"  // it sent nothing to any server that gives a lock or a session up, from From to At
	// there was any fault of it or of its network, from From to At; without a Client: of the servers
	Faulty Kind = "faulty"
)

// Answers are how a call can end, as the type of its error tells.
const (
	AnswerDone        = ""
	AnswerTimeout     = "timeout"     // the acquire timeout is over, or it was a try
	AnswerPending     = "pending"     // the waiting timeout is over
	AnswerGaveUp      = "gave up"     // its context has ended
	AnswerLost        = "lost"        // it was granted, and lost
	AnswerEvicted     = "evicted"     // its place was deleted, or granted and taken over
	AnswerUnavailable = "unavailable" // ZooKeeper does not answer
	AnswerAsked       = "asked"       // the work was interrupted: preempted, or its context has ended
)
