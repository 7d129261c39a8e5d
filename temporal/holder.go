package temporal

import (
	"context"
	"reflect"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Names of the activities that the Plugin registers with each worker. They belong
// to WithLock, and appear in histories.
const (
	// HolderActivity keeps the lock of a WithLock. It is completed
	// asynchronously, and takes up no slot.
	HolderActivity = "lockkeeper.Hold"

	// ReleaseActivity gives the lock of a WithLock away. It is a local activity.
	ReleaseActivity = "lockkeeper.Release"
)

// signalPrefix comes before the name of a hold in its signals.
const signalPrefix = "lockkeeper/"

const (
	// keeperAttempt bounds an attempt of the holder activity. The next one takes
	// the lock over, as after a crash.
	keeperAttempt = 24 * time.Hour

	// keepTime is how long a lock is kept for its successor: the next
	// run, or the next attempt of a holder whose worker is cut off or stops.
	keepTime = 30 * time.Second

	// releaseTimeout bounds the release by a local activity, so that it does not
	// hold up the workflow task.
	releaseTimeout = 3 * time.Second
)

// holderInput is the input of HolderActivity. It is in histories.
type holderInput struct {
	Name        string                `json:"name"` // of the hold in its signals
	Requirement lockguard.Requirement `json:"requirement"`
	Again       bool                  `json:"again,omitempty"` // ask for a lock that was lost anew
	MaxHold     time.Duration         `json:"max_hold_ns"`
	Adopt       *lockguard.Reference  `json:"adopt,omitempty"` // what the run before has kept
}

// holderDetails are the heartbeat details of HolderActivity: all that the next
// attempt has to know.
type holderDetails struct {
	Reference lockguard.Reference `json:"reference"`       // its token is 0 while it waits
	Epoch     int64               `json:"epoch"`           // of the last signal
	Told      bool                `json:"told,omitempty"`  // the workflow knows of the grant
	Asked     bool                `json:"asked,omitempty"` // to go, and the workflow knows
	Held      time.Duration       `json:"held_ns,omitempty"`
}

// holdState is what a signal says of a hold.
type holdState string

const (
	stateGranted    holdState = "granted"
	statePreempting holdState = "preempting"
	stateLost       holdState = "lost"
	stateRegranted  holdState = "regranted"
)

// holdSignal tells a workflow what has become of its hold. The epoch grows with
// each change: what is older than what is known comes late, or twice.
type holdSignal struct {
	State        holdState           `json:"state"`
	Epoch        int64               `json:"epoch"`
	Reference    lockguard.Reference `json:"reference"`
	Continued    bool                `json:"continued,omitempty"`
	Interruption *interruption       `json:"interruption,omitempty"`
}

// releaseInput is the input of ReleaseActivity.
type releaseInput struct {
	Name        string                `json:"Name"`
	Reference   lockguard.Reference   `json:"Reference"` // its hold is "" if the lock is waited for
	Requirement lockguard.Requirement `json:"Requirement"`
	Keep        time.Duration         `json:"Keep"` // for the next run, in place of a release; 0: it is released
}

// A holder has the activities of one worker.
type holder struct {
	agent  *agent
	worker string      // its instance key
	inTest func() bool // it is none, but one of the SDK's test environments
}

// Hold hands the lock of a workflow over to the agent, which completes the
// activity when the lock has been given away.
func (h *holder) Hold(ctx context.Context, in holderInput) error {
	info := activity.GetInfo(ctx)
	service := activity.GetClient(ctx)
	// which has no server behind it there
	if h.inTest() && reflect.TypeOf(service).String() == "*internal.WorkflowClient" {
		return failure(ErrTypeLockConfiguration,
			"there is no Temporal server to keep the lock for; in a test environment use package temporaltesting",
			nil, forGood, loud)
	}
	k := &keeper{
		agent: h.agent, worker: h.worker, input: in, activity: ctx, service: service,
		token: info.TaskToken, workflow: info.WorkflowExecution.ID, run: info.WorkflowExecution.RunID,
		heartbeat: info.HeartbeatTimeout, queued: info.StartedTime.Sub(info.ScheduledTime),
	}
	k.requirement = requirementOf(in.Requirement, info)
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &k.inherited); err != nil {
			return sdk.NewNonRetryableApplicationError("what the attempt before has left cannot be read", ErrTypeLockLost, err)
		}
	}
	k.id = in.holdID(k.inherited, info)
	if !h.agent.take(k) {
		return handover()
	}
	return activity.ErrResultPending
}

// holdID is the id of the hold that an attempt is to keep.
func (in holderInput) holdID(inherited holderDetails, info activity.Info) string {
	switch {
	case inherited.Reference.Hold != "":
		return inherited.Reference.Hold
	case in.Adopt != nil:
		return in.Adopt.Hold
	}
	return holdID(info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, in.Name)
}

// Release gives the lock of a workflow away, or keeps it for the next run, and
// returns the Reference that it is kept by.
func (h *holder) Release(ctx context.Context, in releaseInput) (lockguard.Reference, error) {
	info := activity.GetInfo(ctx)
	in.Requirement = requirementOf(in.Requirement, info)
	id := in.Reference.Hold
	if id == "" {
		id = holdID(info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, in.Name)
	}
	return h.agent.release(ctx, id, in)
}

// requirementOf fills in who wants the lock.
func requirementOf(r lockguard.Requirement, info activity.Info) lockguard.Requirement {
	if r.Owner == "" && info.WorkflowType != nil {
		r.Owner = info.WorkflowType.Name
	}
	if r.Message == "" {
		r.Message = "workflow " + info.WorkflowExecution.ID
	}
	return r
}

// handover is what an attempt ends with that leaves the lock to the next one.
func handover() error {
	return failure(ErrTypeLockHandover, "the worker stops; another one takes the lock over", nil, again(handoverDelay))
}
