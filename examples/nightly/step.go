package main

import "time"

// A step is one line of the timeline. Daemons write steps as JSON, one a line.
type step struct {
	At     time.Time `json:"at"`
	Daemon string    `json:"daemon"`
	Job    string    `json:"job"`
	Run    string    `json:"run,omitempty"` // the same in all steps of one run
	Kind   kind      `json:"kind"`
	Text   string    `json:"text,omitempty"`
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
