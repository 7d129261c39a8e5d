package temporal

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// headerLock is the header of an activity that says which lock it needs. It
// does not pass the payload codec of the client: there are no secrets in it.
const headerLock = "lockkeeper-lock"

// A call is what a workflow tells the worker that runs the activity.
type call struct {
	// Lock is declared for this call; nil: what is declared for the type counts.
	Lock *wireLock `json:"lock,omitempty"`

	// Run is how long an attempt may run once it has its lock; 0: the
	// StartToCloseTimeout of the activity says it.
	Run time.Duration `json:"run,omitempty"`
}

// wireLock is a Lock that can travel.
type wireLock struct {
	Requirement lockguard.Requirement   `json:"requirement"`
	Also        []lockguard.Requirement `json:"also,omitempty"`
	InSlotWait  time.Duration           `json:"in_slot_wait,omitempty"`
	OnBusy      Busy                    `json:"on_busy,omitempty"`
	OnPreempted Preempted               `json:"on_preempted,omitempty"`
	RetryDelay  time.Duration           `json:"retry_delay,omitempty"`
	SkipResult  json.RawMessage         `json:"skip_result,omitempty"`
}

func (l Lock) wire() (*wireLock, error) {
	if l.Cleanup != nil {
		return nil, errors.New("a cleanup hook cannot travel with a call; declare it for the type of the activity")
	}
	w := &wireLock{
		Requirement: l.Requirement, Also: l.Also, InSlotWait: l.InSlotWait, OnBusy: l.OnBusy, OnPreempted: l.OnPreempted,
		RetryDelay: l.RetryDelay,
	}
	if l.SkipResult != nil {
		text, err := json.Marshal(l.SkipResult)
		if err != nil {
			return nil, fmt.Errorf("skip_result cannot be written as JSON: %w", err)
		}
		w.SkipResult = text
	}
	return w, nil
}

func (w *wireLock) lock() Lock {
	l := Lock{
		Requirement: w.Requirement, Also: w.Also, InSlotWait: w.InSlotWait, OnBusy: w.OnBusy, OnPreempted: w.OnPreempted,
		RetryDelay: w.RetryDelay,
	}
	if w.SkipResult != nil {
		l.SkipResult = w.SkipResult
	}
	return l
}

func (c call) write(header map[string]*commonpb.Payload) error {
	if c == (call{}) {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	header[headerLock] = &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
		Data:     text,
	}
	return nil
}

func readCall(header map[string]*commonpb.Payload) (call, error) {
	payload := header[headerLock]
	if payload == nil {
		return call{}, nil
	}
	var c call
	if err := json.Unmarshal(payload.GetData(), &c); err != nil {
		return call{}, fmt.Errorf("the header %s cannot be read: %w", headerLock, err)
	}
	return c, nil
}
