package main

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// answer says how a call has ended, by the type of its error alone; an error
// without a known type is given as its text.
func answer(err error) string {
	told := map[priority.Kind]string{
		priority.KindLost: history.AnswerLost, priority.KindPreempted: history.AnswerAsked,
		priority.KindLeaseExpired: history.AnswerAsked,
		priority.KindShutdown:     history.AnswerAsked, priority.KindTimeout: history.AnswerTimeout,
		priority.KindCleanupPending: history.AnswerPending, priority.KindEvicted: history.AnswerEvicted,
	}[priority.CauseOf(err).Kind]
	switch {
	case err == nil:
		return history.AnswerDone
	case told != "":
		return told
	case errors.As(err, new(*lock.UnavailableError)): // what it wraps may look like the end of a context
		return history.AnswerUnavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return history.AnswerGaveUp
	}
	return err.Error()
}
