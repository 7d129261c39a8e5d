package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
)

// record changes what the next attempt is to know, and has Temporal know it.
func (k *keeper) record(change func(*holderDetails)) {
	k.mu.Lock()
	change(&k.details)
	k.mu.Unlock()
	wake(k.wakeBeat)
}

func (k *keeper) snapshot() holderDetails {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.details
}

// beat tells Temporal that the keeper is alive, until it has said that it is not
// to be any more.
func (k *keeper) beat(ctx context.Context) {
	every := k.beatInterval()
	last := time.Now()
	for ctx.Err() == nil && !closed(k.verdict) {
		now := time.Now()
		k.mu.Lock()
		if k.details.Told {
			k.details.Held += now.Sub(last)
		}
		k.mu.Unlock()
		last = now

		k.pulse(ctx)
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
		case <-k.verdict:
		case <-k.wakeBeat:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (k *keeper) beatInterval() time.Duration {
	if k.heartbeat <= 0 {
		return DefaultHeartbeatTimeout / 3
	}
	return k.heartbeat / 3
}

// pulse is one heartbeat.
func (k *keeper) pulse(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, max(k.beatInterval(), time.Second))
	defer cancel()
	err := k.service.RecordActivityHeartbeat(once, k.token, k.snapshot())
	switch {
	case err == nil, errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		// it holds all the same
	case errors.As(err, new(*sdk.CanceledError)):
		k.say(errCanceled)
	case errors.As(err, new(*serviceerror.NotFound)):
		if why := k.superseded(once); why != nil {
			k.say(why)
		}
	default:
		k.agent.logger.Warn("heartbeat for the lock of a workflow failed",
			"scope", k.requirement.Scope, "workflow_id", k.workflow, "error", err)
	}
}

// say is the verdict of Temporal.
func (k *keeper) say(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.said == nil {
		k.said = why
		close(k.verdict)
		k.order(why)
	}
}

// superseded says why the attempt does not exist any more; nil: that is not known.
func (k *keeper) superseded(ctx context.Context) error {
	described, err := k.service.DescribeWorkflowExecution(ctx, k.workflow, k.run)
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return errClosed
	case err != nil:
		return nil //nolint:nilerr // no answer is no such report
	case described.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return errSuperseded
	}
	return errClosed
}

// complete ends the activity. It gives up when Temporal does not know it any more,
// and says why then; or when Temporal does not answer for too long a time: then the
// heartbeat timeout ends it.
func (k *keeper) complete(err error) (unknown error) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	for {
		failed := k.service.CompleteActivity(ctx, k.token, nil, err)
		switch {
		case errors.As(failed, new(*serviceerror.NotFound)):
			return k.superseded(ctx)
		case failed == nil, ctx.Err() != nil:
			return nil
		}
		k.agent.logger.Warn("workflow not notified of the end of its lock",
			"scope", k.requirement.Scope, "workflow_id", k.workflow, "error", failed)
		pause(ctx, k.beatInterval())
	}
}

// tell notifies the workflow as soon as possible. News that is not sent
// by then is outdated.
func (k *keeper) tell(s holdSignal, until time.Time) {
	k.mu.Lock()
	k.details.Epoch++
	s.Epoch = k.details.Epoch
	k.news, k.until = &s, until
	k.mu.Unlock()
	wake(k.wakeTell)
}

// teller tells the workflow, until the keeper has an order to end.
func (k *keeper) teller(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wakeTell:
		}
		for wait := tellPause; ; wait = min(2*wait, k.beatInterval()) {
			again := k.tellOnce(ctx)
			if !again || ctx.Err() != nil {
				break
			}
			pause(ctx, wait)
		}
	}
}

// tellPause is how soon a signal is sent again that has failed.
const tellPause = 200 * time.Millisecond

// tellOnce sends what is new. It returns whether that has to be done again.
func (k *keeper) tellOnce(ctx context.Context) (again bool) {
	k.mu.Lock()
	news, until := k.news, k.until
	k.mu.Unlock()
	if news == nil {
		return false
	}
	s := *news
	if s.Interruption != nil && s.Interruption.Held() {
		i := *s.Interruption
		i.Grace = left(until)
		s.Interruption = &i
	}
	once, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := k.service.SignalWorkflow(once, k.workflow, k.run, signalPrefix+k.input.Name, s)
	if errors.As(err, new(*serviceerror.NotFound)) {
		wake(k.wakeBeat) // which finds out
		return false
	}
	if err != nil {
		k.agent.logger.Warn("workflow not notified of the state of its lock",
			"scope", k.requirement.Scope, "workflow_id", k.workflow, "state", string(s.State), "error", err)
		return true
	}
	k.mu.Lock()
	newer := k.news != news
	if !newer {
		k.news = nil
	}
	k.mu.Unlock()
	k.record(func(d *holderDetails) {
		d.Told = s.State != stateLost
		d.Asked = s.State == statePreempting
	})
	return newer
}

const tellTimeout = 5 * time.Second

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
