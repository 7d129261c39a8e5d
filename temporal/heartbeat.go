package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
)

// SupersededError is the cause with which the context of an activity ends when
// the server has accepted no heartbeat for HeartbeatTimeout: it has given the
// attempt up by now, and another one may be running.
type SupersededError struct {
	Timeout time.Duration // the HeartbeatTimeout
	Err     error         // what the last heartbeat failed with
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("superseded: no heartbeat was accepted for %s: %v", e.Timeout, e.Err)
}

// Unwrap returns what the last heartbeat failed with.
func (e *SupersededError) Unwrap() error { return e.Err }

const (
	maxPulse  = 2 * time.Second
	progress  = 500 * time.Millisecond // between heartbeats that only tell progress
	flushTime = 2 * time.Second
)

// tokenClient sends heartbeats by the token of the attempt, past the throttle
// of the SDK. client.Client is one.
type tokenClient interface {
	RecordActivityHeartbeatWithOptions(ctx context.Context, o client.RecordActivityHeartbeatOptions) error
}

// A pulse is the heartbeat of one attempt, from its begin until its hooks have
// returned: of the time in which it waits, of the user's progress, and of the
// time after its context has ended, in which the SDK's own would not be sent.
type pulse struct {
	info   activity.Info
	token  tokenClient // nil: in a test environment, which has none
	sdk    interceptor.ActivityOutboundInterceptor
	ctx    context.Context // of the attempt for the SDK
	cancel context.CancelCauseFunc
	logger *slog.Logger

	interval time.Duration
	due      chan struct{} // there is progress to tell
	lasting  context.Context
	quit     context.CancelFunc
	ended    chan struct{}

	mu      sync.Mutex
	details details       // to be sent
	pending bool          // and not sent yet
	told    bool          // why the attempt has to stop
	gone    bool          // the server does not know the attempt any more
	known   time.Time     // when the last heartbeat was sent that was accepted
	news    chan struct{} // closed with the next one
}

// startPulse sends the first heartbeat at once. cancel ends the attempt.
func startPulse(
	ctx context.Context, token tokenClient, sdk interceptor.ActivityOutboundInterceptor, info activity.Info,
	inherited details, cancel context.CancelCauseFunc, logger *slog.Logger,
) *pulse {
	p := &pulse{
		info: info, token: token, sdk: sdk, ctx: context.WithoutCancel(ctx), cancel: cancel, logger: logger,
		interval: maxPulse,
		due:      make(chan struct{}, 1),
		ended:    make(chan struct{}),
		news:     make(chan struct{}),
		details:  inherited, // also the slip, until the lock is there
	}
	p.lasting, p.quit = context.WithCancel(context.Background())
	if timeout := info.HeartbeatTimeout; timeout > 0 {
		p.interval = min(timeout/3, maxPulse)
	}
	if token == nil {
		close(p.ended)
		return p
	}
	go p.run()
	return p
}

func (p *pulse) run() {
	defer close(p.ended)
	accepted := time.Now()
	timer := time.NewTimer(p.interval)
	defer timer.Stop()
	for {
		select {
		case <-p.due: // sent with this one
		default:
		}
		sent := time.Now()
		err := p.send(p.lasting, p.limit(accepted))
		switch {
		case p.lasting.Err() != nil:
			return
		case err == nil:
			accepted = sent
			p.accept(sent)
		case p.isWord(err):
			if !p.tell(err) {
				return
			}
			accepted = sent
		default:
			p.logger.Warn("heartbeat failed", "activity_id", p.info.ActivityID, "error", err)
			if timeout := p.info.HeartbeatTimeout; timeout > 0 && time.Since(accepted) >= timeout {
				p.cancel(&SupersededError{Timeout: timeout, Err: err})
				return
			}
		}
		timer.Reset(time.Until(p.next(sent, accepted, err)))
		select {
		case <-p.lasting.Done():
			return
		case <-timer.C:
			continue
		case <-p.due:
		}
		timer.Reset(time.Until(sent.Add(min(progress, p.interval))))
		select {
		case <-p.lasting.Done():
			return
		case <-timer.C:
		}
	}
}

// accept takes note of a heartbeat that was accepted.
func (p *pulse) accept(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = sent
	close(p.news)
	p.news = make(chan struct{})
}

// confirm returns nil when the server knows the attempt, and cannot have given it
// up by now. One that begins late, because its worker was stopped meanwhile, would
// have a larger token than the attempt that Temporal believes in. It ends with ctx,
// as it does when the server does not know the attempt.
func (p *pulse) confirm(ctx context.Context) error {
	for p.token != nil {
		p.mu.Lock()
		known, news := p.known, p.news
		p.mu.Unlock()
		if timeout := p.info.HeartbeatTimeout; !known.IsZero() && (timeout <= 0 || time.Since(known) < timeout) {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// limit is for how long one heartbeat is tried.
func (p *pulse) limit(accepted time.Time) time.Duration {
	timeout := p.info.HeartbeatTimeout
	if timeout <= 0 {
		return 5 * time.Second
	}
	return max(time.Until(accepted.Add(timeout)), time.Millisecond)
}

// next is when the next heartbeat is sent unless there is progress before.
func (p *pulse) next(sent, accepted time.Time, err error) time.Time {
	at := sent.Add(p.interval)
	if timeout := p.info.HeartbeatTimeout; err != nil && timeout > 0 && accepted.Add(timeout).Before(at) {
		return accepted.Add(timeout) // when the server gives up
	}
	return at
}

// send sends one heartbeat.
func (p *pulse) send(ctx context.Context, limit time.Duration) error {
	p.mu.Lock()
	values := p.details.values()
	p.pending = false
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := p.token.RecordActivityHeartbeatWithOptions(ctx, client.RecordActivityHeartbeatOptions{
		TaskToken:    p.info.TaskToken,
		Details:      values,
		WorkflowID:   p.info.WorkflowExecution.ID,
		WorkflowType: workflowType(p.info),
		ActivityType: p.info.ActivityType.Name,
		TaskQueue:    p.info.TaskQueue,
	})
	if err != nil && !p.isWord(err) {
		p.mu.Lock()
		p.pending = true
		p.mu.Unlock()
	}
	return err
}

// isWord reports whether err is what the server has to say about the attempt.
func (p *pulse) isWord(err error) bool {
	return sdk.IsCanceledError(err) || errors.Is(err, activity.ErrActivityPaused) ||
		errors.Is(err, activity.ErrActivityReset) || isGone(err)
}

func isGone(err error) bool {
	return errors.As(err, new(*serviceerror.NotFound)) || errors.As(err, new(*serviceerror.NamespaceNotFound)) ||
		errors.As(err, new(*serviceerror.NamespaceNotActive))
}

// tell ends the attempt with what the server has said, once, and reports
// whether the server still listens.
func (p *pulse) tell(err error) bool {
	p.mu.Lock()
	first := !p.told
	p.told = true
	p.gone = p.gone || isGone(err)
	gone := p.gone
	p.mu.Unlock()
	if first {
		p.hearIt()
		p.cancel(err)
	}
	return !gone
}

// hearIt has the SDK ask the server itself. Then it knows as well, ends the
// context from which ours derives with that cause, and takes the cancellation
// for one.
func (p *pulse) hearIt() {
	p.mu.Lock()
	values := p.details.values()
	p.mu.Unlock()
	p.sdk.RecordHeartbeat(p.ctx, values...)
}

// record takes the progress that the activity tells.
func (p *pulse) record(values []any) {
	d := encoded(values)
	p.mu.Lock()
	p.details = d
	p.pending = true
	p.mu.Unlock()
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// leave records a ticket for the next attempt, beside the user's progress. When
// it returns an error, the next attempt may know of it all the same.
func (p *pulse) leave(t slip) error {
	p.mu.Lock()
	p.details.slip = &t
	values := p.details.values()
	p.mu.Unlock()
	if p.token == nil {
		p.sdk.RecordHeartbeat(p.ctx, values...)
		return nil
	}
	return p.send(p.lasting, flushTime)
}

// take takes the slip back: the attempt goes on.
func (p *pulse) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.details.slip != nil {
		p.details.slip = nil
		p.pending = true
	}
}

// stop ends the heartbeats, and sends what the activity has recorded last if
// another attempt may want to know it.
func (p *pulse) stop(failed bool) {
	p.quit()
	<-p.ended
	if p.token == nil {
		return
	}
	p.mu.Lock()
	flush := failed && p.pending && !p.gone
	p.mu.Unlock()
	if flush {
		if err := p.send(context.Background(), flushTime); err != nil && !p.isWord(err) {
			p.logger.Warn("the last heartbeat failed", "activity_id", p.info.ActivityID, "error", err)
		}
	}
}

func workflowType(info activity.Info) string {
	if info.WorkflowType == nil {
		return ""
	}
	return info.WorkflowType.Name
}
