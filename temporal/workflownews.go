package temporal

import (
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// watch hears what becomes of the hold while something runs under it.
func (h *workflowHold) watch() (stop func()) {
	over, settle := workflow.NewFuture(h.detached)
	workflow.Go(h.detached, func(ctx workflow.Context) {
		for done := false; !done; {
			s := h.selector(ctx)
			s.AddFuture(over, func(workflow.Future) { done = true })
			s.Select(ctx)
		}
	})
	return func() { settle.Set(nil, nil) }
}

// selector waits for news of the keeper, in the coroutine of ctx.
func (h *workflowHold) selector(ctx workflow.Context) workflow.Selector {
	s := workflow.NewSelector(ctx)
	s.AddReceive(h.signals, func(c workflow.ReceiveChannel, _ bool) {
		var news holdSignal
		if c.ReceiveAsync(&news) { // what a stranger has sent may be none
			h.hear(news)
		}
	})
	if h.phase != holdOver {
		keeper := h.keeper
		s.AddFuture(keeper, func(workflow.Future) {
			if keeper == h.keeper {
				h.ended(keeper.Get(ctx, nil))
			}
		})
	}
	return s
}

// hearAll hears what has come already.
func (h *workflowHold) hearAll(ctx workflow.Context) {
	var news holdSignal
	for h.signals.ReceiveAsync(&news) {
		h.hear(news)
		news = holdSignal{}
	}
	if h.phase != holdOver && h.keeper.IsReady() {
		h.ended(h.keeper.Get(ctx, nil))
	}
}

// hear gets the news of the keeper. It ignores old and repeated news.
func (h *workflowHold) hear(news holdSignal) {
	known, token := h.reference.Token, news.Reference.Token
	if h.phase == holdOver || token < known || token == known && news.Epoch <= h.epoch {
		return
	}
	h.epoch = news.Epoch
	if token > known && h.phase == holdGranted {
		// After a reset the keeper begins anew: the hold that is in the history
		// has ended with the old run. The same when no worker was there to keep it.
		h.lose(lostBecause(h.reference, "the workflow was reset, or no worker has kept it"))
	}
	switch news.State {
	case stateGranted, stateRegranted:
		if token > known {
			h.continued = news.Continued
		}
		h.reference = news.Reference
		h.phase, h.told = holdGranted, false
	case statePreempting:
		h.reference = news.Reference
		h.phase = holdGranted
		if news.Interruption != nil {
			h.interrupt(*news.Interruption)
		}
	case stateLost:
		if news.Interruption != nil && (h.phase != holdLost || !h.told) {
			h.lose(*news.Interruption)
			h.told = true
		}
	}
}

// interrupt stops what runs under the lock.
func (h *workflowHold) interrupt(i interruption) {
	if !i.Held() {
		h.lose(i)
		return
	}
	i.Deadline = workflow.Now(h.detached).Add(i.Grace)
	switch {
	case h.interrupted == nil:
		h.interrupted = &i
		h.halt()
	case !h.interrupted.Held() && h.phase == holdGranted:
		h.next = &i
	}
}

// lose stops what runs under the lock, cleanup too.
func (h *workflowHold) lose(i interruption) {
	h.phase = holdLost
	h.interrupted, h.next = &i, nil
	h.halt()
}

func (h *workflowHold) halt() {
	for _, r := range h.running {
		r.stop()
	}
}

// ended hears that there is no keeper any more.
func (h *workflowHold) ended(err error) {
	before := h.phase
	if before == holdGranted && neverBegun(err) {
		// The limit is for the grant. Once there is a worker again it finds out
		// whether the lock is there yet.
		h.epoch = 0
		h.keep(h.reference, 0)
		return
	}
	h.phase = holdOver
	if err == nil {
		err = errors.New("its keeper has ended")
	}
	if application, ok := errors.AsType[*sdk.ApplicationError](err); ok {
		err = application // the activity is none of the caller's business
	}
	h.failure = err
	if i, ok := interruptionOf(err); ok {
		h.interrupted, h.failure = &i, nil
		h.halt()
		return
	}
	if timeout, ok := errors.AsType[*sdk.TimeoutError](err); ok && before == holdWaiting {
		h.failure = failure(ErrTypeLockWaitTimeout,
			fmt.Sprintf("lock %q not acquired: no worker has asked for it in time", h.requirement.Scope), timeout)
		return
	}
	if before != holdWaiting {
		i := lostBecause(h.reference, "%v", err)
		h.interrupted = &i
		h.halt()
	}
}

// neverBegun reports whether an attempt of the keeper has found no worker in time:
// one after the first, if the lock was granted.
func neverBegun(err error) bool {
	timeout, ok := errors.AsType[*sdk.TimeoutError](err)
	return ok && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}
