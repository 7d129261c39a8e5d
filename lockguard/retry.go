package lockguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Retry says how a Guard tries again to acquire what it could not: see
// Guard.Retrying. The zero value tries until the context ends.
//
// Each request may wait as long as its own acquire timeout. Between requests
// it is not in the queue: to wait for a lock, a longer acquire timeout is
// fairer. Retries are for tries (acquire timeout 0), for polite requests that
// a holder's cleanup outlasts, and for a ZooKeeper that does not answer.
type Retry struct {
	// Attempts is how many requests are made at most. Defaults to 0: no limit.
	Attempts int

	// MaxElapsed bounds all requests and the pauses between them, from the call
	// on. Defaults to 0: no limit.
	MaxElapsed time.Duration

	// MaxPause is what the pauses grow to. Defaults to 30s.
	MaxPause time.Duration

	// Pause is the first pause. Each one is twice as long as the one before, and
	// a random part of a half of it shorter or longer, so that those who were
	// refused together do not come back together. Defaults to 500ms.
	Pause time.Duration
}

// RetryError is returned when a lock could not be acquired within the limits of
// a Retry, or within the life of the context. The last request is withdrawn.
type RetryError struct {
	Attempts int
	Elapsed  time.Duration // from the call on
	Err      error         // of the last request; and the cause of the context, if that has ended
}

func (e *RetryError) Error() string {
	attempts := "1 attempt"
	if e.Attempts != 1 {
		attempts = fmt.Sprintf("%d attempts", e.Attempts)
	}
	return fmt.Sprintf("gave up after %s in %s: %v", attempts, e.Elapsed.Round(time.Millisecond), e.Err)
}

// Unwrap returns the error of the last request.
func (e *RetryError) Unwrap() error { return e.Err }

// Retrying returns a Guard that is like g, except that Do, DoAll, Acquire and
// AcquireAll try again when a lock was not acquired in time, when the cleanup of
// its holder was not done in time, or when ZooKeeper does not answer. Work is
// never run again. In the end they return a *RetryError. Any other error, such
// as a *RequestError, is returned as it is, at once.
//
// Each request has events of its own. Holds of both Guards nest.
//
// It returns everything that is wrong with r, joined (errors.Join).
func (g *Guard) Retrying(r Retry) (*Guard, error) {
	var problems []error
	refuse := func(field string, value any, instead string) {
		problems = append(problems, &RequestError{Field: field, Reason: fmt.Sprintf("%v is negative; %s", value, instead)})
	}
	if r.Attempts < 0 {
		refuse("Attempts", r.Attempts, "write 0 for no limit")
	}
	if r.MaxElapsed < 0 {
		refuse("MaxElapsed", r.MaxElapsed, "write 0 for no limit")
	}
	if r.MaxPause < 0 {
		refuse("MaxPause", r.MaxPause, "write 0 for 30s")
	}
	if r.Pause < 0 {
		refuse("Pause", r.Pause, "write 0 for 500ms")
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if r.Pause == 0 {
		r.Pause = 500 * time.Millisecond
	}
	if r.MaxPause == 0 {
		r.MaxPause = max(30*time.Second, r.Pause)
	}
	if r.MaxPause < r.Pause {
		return nil, &RequestError{
			Field:  "MaxPause",
			Reason: fmt.Sprintf("%s is shorter than Pause (%s); lengthen the one or shorten the other", r.MaxPause, r.Pause),
		}
	}
	retrying := *g
	retrying.retry = &r
	return &retrying, nil
}

// acquire requests the locks until it has them or must not go on.
func (r *Retry) acquire(
	ctx context.Context, requirements []Requirement, request func([]Requirement) (*Hold, error),
) (*Hold, error) {
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: r.Pause, MaxInterval: r.MaxPause, Multiplier: 2, RandomizationFactor: 0.5,
	}
	options := []backoff.RetryOption{
		backoff.WithBackOff(pauses),
		backoff.WithMaxTries(uint(r.Attempts)),
		backoff.WithMaxElapsedTime(r.MaxElapsed),
	}
	start := time.Now()
	attempts, last, final := 0, error(nil), false
	hold, err := backoff.Retry(ctx, func() (*Hold, error) {
		attempts++
		var hold *Hold
		hold, last = request(r.within(requirements, start))
		if last != nil && (ctx.Err() != nil || !isWorthRetrying(last)) {
			final = true
			return nil, backoff.Permanent(last)
		}
		return hold, last
	}, options...)
	switch {
	case err == nil:
		return hold, nil
	case final && !isWorthRetrying(last):
		return nil, last
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(last, cause) {
			last = fmt.Errorf("%w: %w", last, cause)
		}
	}
	return nil, &RetryError{Attempts: attempts, Elapsed: time.Since(start), Err: last}
}

// within returns requirements that wait no longer than MaxElapsed allows.
func (r *Retry) within(requirements []Requirement, start time.Time) []Requirement {
	if r.MaxElapsed == 0 {
		return requirements
	}
	left := max(r.MaxElapsed-time.Since(start), time.Nanosecond) // 0 would be a try
	requirements = slices.Clone(requirements)
	for i := range requirements {
		if t := requirements[i].AcquireTimeout; t == nil || *t > left {
			requirements[i].AcquireTimeout = new(left)
		}
	}
	return requirements
}

func isWorthRetrying(err error) bool {
	return lock.IsNotAcquired(err) || errors.As(err, new(*lock.UnavailableError))
}
