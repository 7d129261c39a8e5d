package nightly

import "time"

// A step is one line of the timeline.
type step struct {
	At     time.Time
	Daemon string
	Job    string
	Run    string // the same in all steps of one run; "" when none has begun
	Kind   kind
	Text   string

	Overlap bool // it was skipped because another run of the job is in the way
}

// kind is what happened.
type kind string

const (
	waiting    kind = "waiting"
	holding    kind = "holding"
	running    kind = "running" // without a lock
	preempted  kind = "preempted"
	cleaning   kind = "cleaning up"
	cleaned    kind = "cleaned up"
	unclean    kind = "not cleaned" // the cleanup failed
	done       kind = "done"
	failed     kind = "failed"
	handedOver kind = "handed over"
	stopped    kind = "stopped" // by the end of the daemon
	tookOver   kind = "took over"
	lost       kind = "lost"
	gaveUp     kind = "gave up"
	left       kind = "left" // the queue, because the daemon ends
	skipped    kind = "skipped"
	frozen     kind = "frozen"     // an override keeps it out of the queue
	thawed     kind = "thawed"     // not any more
	overridden kind = "overridden" // an override has changed its request
	outage     kind = "outage"     // ZooKeeper does not answer
	answers    kind = "answers"
)

// ends reports whether a run is over with k.
func (k kind) ends() bool {
	switch k {
	case done, failed, handedOver, stopped, lost, gaveUp, left:
		return true
	default:
		return false
	}
}
