package temporal

import (
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// MemoKey is the key of the Origin in the memo of a workflow.
const MemoKey = "lockkeeper"

// An Origin tells a workflow which job has started it and under which lock. It
// is in the memo, so it can be read with the right to read the workflow. In JSON
// all tokens are decimal strings.
type Origin struct {
	Cause     string            `json:"cause,omitempty"`        // in a cleanup hook: jobs.CauseWord
	Job       string            `json:"job"`                    // its name
	Run       string            `json:"run,omitempty"`          // the attempt
	Scheduled *time.Time        `json:"scheduled,omitempty"`    // the instant of the schedule; nil for a run by hand
	Scope     string            `json:"scope,omitempty"`        // of the lock, of several the first one; "" without
	Token     lockguard.Token   `json:"token,omitempty,string"` // of that lock; 0 without
	Tokens    map[string]string `json:"tokens,omitempty"`       // of each scope
	Trace     string            `json:"traceparent,omitempty"`  // the trace that the lock belongs to
}

// TokenOf returns the token of one scope; false if it was not locked.
func (o Origin) TokenOf(scope string) (lockguard.Token, bool) {
	n, err := strconv.ParseInt(o.Tokens[scope], 10, 64)
	return lockguard.Token(n), err == nil
}

// OriginOf returns the Origin of a workflow; false if no job has started it.
// Give its Token to activities that write to something, which then can refuse
// one that is smaller than one it has seen: a workflow may outlive its lock.
//
// It is for workers whose data converter is the default one, or none at all:
// with another, decode the memo MemoKey with that.
func OriginOf(ctx workflow.Context) (origin Origin, ok bool, err error) {
	payload, ok := workflow.GetInfo(ctx).Memo.GetFields()[MemoKey]
	if !ok {
		return Origin{}, false, nil
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &origin); err != nil {
		return Origin{}, false, fmt.Errorf("memo %q cannot be read: %w", MemoKey, err)
	}
	return origin, true, nil
}

func originOf(run jobs.Run, h lockguard.WorkHold) Origin {
	o := Origin{Cause: jobs.CauseWord(run.Cause), Job: run.Job, Run: run.Attempt}
	if !run.Scheduled.IsZero() {
		instant := run.Scheduled.UTC()
		o.Scheduled = &instant
	}
	if h == nil {
		return o
	}
	info := h.Info()
	o.Scope, o.Token, o.Trace = info.Requirement.Scope, info.Token, h.Trace()
	o.Tokens = make(map[string]string)
	for scope, token := range h.Tokens() {
		o.Tokens[scope] = token.String()
	}
	return o
}
