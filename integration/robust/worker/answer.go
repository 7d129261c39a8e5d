package main

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// answer tells how a call has ended, by the type of its error alone: one that a
// caller could not tell either is told as its text.
func answer(err error) string {
	is := func(target any) bool { return errors.As(err, target) }
	switch {
	case err == nil:
		return history.AnswerDone
	case is(new(*recipes.LostError)):
		return history.AnswerLost
	case is(new(*lockguard.PreemptedError)), is(new(*lockguard.LeaseExpiredError)), is(new(*lockguard.ShutdownError)):
		return history.AnswerAsked
	case is(new(*recipes.NotAcquiredError)):
		return history.AnswerTimeout
	case is(new(*recipes.CleanupPendingError)):
		return history.AnswerPending
	case is(new(*recipes.EvictedError)):
		return history.AnswerEvicted
	case is(new(*recipes.UnavailableError)): // what it wraps may look like the end of a context
		return history.AnswerUnavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return history.AnswerGaveUp
	}
	return err.Error()
}
