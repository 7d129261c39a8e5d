package temporal

import "fmt"

// Busy says what an attempt of an activity does while another holder has its
// lock.
type Busy uint8

const (
	// BusyHybrid (default) waits in the slot for a moment (Lock.InSlotWait), then
	// yields: the attempt fails with ErrTypeLockBusy and is made again soon, and its
	// place in the queue is kept for the next attempt, on whatever worker. An
	// attempt that may be the last one does not yield but waits on.
	BusyHybrid Busy = iota

	// BusyWait waits in the slot, for as long as the timeouts allow.
	BusyWait

	// BusyRetry yields at once, and keeps its place like BusyHybrid.
	BusyRetry

	// BusySkip does not wait: the activity completes with Lock.SkipResult.
	BusySkip
)

func (b Busy) String() string {
	switch b {
	case BusyHybrid:
		return "hybrid"
	case BusyWait:
		return "wait"
	case BusyRetry:
		return "retry"
	case BusySkip:
		return "skip"
	}
	return fmt.Sprintf("Busy(%d)", uint8(b))
}

func (b Busy) known() bool { return b <= BusySkip }

// Preempted says how an attempt of an activity ends that was asked to give its
// lock away, if it returns an error. One that returns nil has completed, with
// its result.
type Preempted uint8

const (
	// PreemptedRetry (default) fails the attempt with ErrTypeLockPreempted, and
	// has it made again as soon as that makes sense.
	PreemptedRetry Preempted = iota

	// PreemptedFail fails the activity for good, with ErrTypeLockPreempted.
	PreemptedFail

	// PreemptedCooperate leaves the error of the activity as it is: the activity
	// knows what to do.
	PreemptedCooperate
)

func (p Preempted) String() string {
	switch p {
	case PreemptedRetry:
		return "retry"
	case PreemptedFail:
		return "fail"
	case PreemptedCooperate:
		return "cooperate"
	}
	return fmt.Sprintf("Preempted(%d)", uint8(p))
}

func (p Preempted) known() bool { return p <= PreemptedCooperate }
