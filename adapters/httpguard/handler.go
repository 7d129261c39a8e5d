package httpguard

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Guard runs work under locks; *lockguard.Guard does.
type Guard interface {
	DoAll(ctx context.Context, all []lockguard.Requirement, work func(context.Context) error,
		hooks ...lockguard.Hook) error
}

// An Option changes what Handler does.
type Option func(*handler)

// WithLogger sets where requests are logged that can never get their lock
// (error) and panics of the handler. Defaults to slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(h *handler) { h.logger = logger } }

// WithRetryAfter sets the Retry-After of refusals, in whole seconds, rounded
// up. Defaults to 1s.
func WithRetryAfter(d time.Duration) Option { return func(h *handler) { h.retryAfter = d } }

// WithRefusal sets what answers a request whose handler has written nothing:
// because it did not run, with what lockguard.Guard.AcquireAll returns, or
// because it was interrupted, with the cause. Retry-After is set already.
// Defaults to Refuse.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(h *handler) { h.refuse = refuse }
}

// Handler serves each request under the lock that requirement declares: all
// requests have the same one. See HandlerFor.
//
// Once the response has started, nothing can be said any more: its status is on
// the way to the client. A handler that is interrupted in the middle of a
// response can only break it off, with panic(http.ErrAbortHandler), so that the
// client sees that it is not whole. And a lock can be lost after the last byte
// was written and before the client reads it: what the handler writes to has to
// look at the token.
func Handler(guard Guard, requirement lockguard.Requirement, next http.Handler, options ...Option) http.Handler {
	return HandlerFor(guard, func(*http.Request) ([]lockguard.Requirement, error) {
		return []lockguard.Requirement{requirement}, nil
	}, next, options...)
}

// HandlerFor serves each request under the locks that its requirements declare,
// all of them or none. An error of requirements is answered 400 Bad Request, with
// its text.
//
// An acquire timeout that is unset is 0: a request that finds its lock held is
// refused at once and preempts no holder, whatever its priority. Set one to wait, or
// to preempt; it never waits longer than the client does. Each waiting request
// costs a goroutine and a place in ZooKeeper's queue.
//
// The lock is released when next has returned, which is before the last of a
// response that next has not flushed is sent. A panic of next goes on to
// net/http when the lock is released.
func HandlerFor(
	guard Guard, requirements func(*http.Request) ([]lockguard.Requirement, error), next http.Handler, options ...Option,
) http.Handler {
	h := &handler{
		guard:        guard,
		requirements: requirements,
		next:         next,
		logger:       slog.Default(),
		retryAfter:   time.Second,
		refuse:       Refuse,
	}
	for _, option := range options {
		option(h)
	}
	return h
}

type handler struct {
	guard        Guard
	requirements func(*http.Request) ([]lockguard.Requirement, error)
	next         http.Handler
	logger       *slog.Logger
	retryAfter   time.Duration
	refuse       func(http.ResponseWriter, *http.Request, error)
}

// ServeHTTP serves the request under its locks, or refuses it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requirements, err := h.needs(r)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	response := &response{ResponseWriter: w}
	var panicked *panicked
	err = h.guard.DoAll(r.Context(), requirements, func(ctx context.Context) error {
		panicked = h.serve(response, r.WithContext(ctx))
		return nil
	})
	switch {
	case panicked != nil:
		panic(panicked.value) // net/http knows what to do with it
	case err == nil, response.started, r.Context().Err() != nil:
		return // nothing to say, too late to say it, or the client is gone
	}
	if errors.As(err, new(*lockguard.RequestError)) {
		h.logger.ErrorContext(r.Context(), "a request can never get its lock", "method", r.Method,
			"path", r.URL.Path, "error", err)
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(h.retryAfter.Seconds()))))
	h.refuse(w, r, err)
}

// needs returns the requirements of a request.
func (h *handler) needs(r *http.Request) ([]lockguard.Requirement, error) {
	given, err := h.requirements(r)
	if err != nil {
		return nil, err
	}
	requirements := slices.Clone(given)
	for i := range requirements {
		if requirements[i].AcquireTimeout == nil {
			requirements[i].AcquireTimeout = new(time.Duration)
		}
	}
	return requirements, nil
}

// panicked is a panic of the handler, on its way to net/http around the guard.
type panicked struct{ value any }

func (h *handler) serve(w http.ResponseWriter, r *http.Request) (p *panicked) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		p = &panicked{value}
		if value != http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
			h.logger.ErrorContext(r.Context(), "a handler panicked under its lock", "method", r.Method, "path", r.URL.Path,
				"panic", value, "stack", string(debug.Stack()))
		}
	}()
	h.next.ServeHTTP(w, r)
	return nil
}
