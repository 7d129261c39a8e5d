package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A narrator tells what happens, one line each, and lets the story wait for it.
type narrator struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
	seen  map[string]chan struct{} // by who and what
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, began: time.Now(), seen: map[string]chan struct{}{}}
}

// say tells a line.
func (n *narrator) say(who, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = fmt.Fprintf(n.out, "  %6.2fs  %-10s%s\n", time.Since(n.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// observe tells the events of the guards. Whose locks they are is their owner's
// name; "ana" is the one for whom a daemon takes a lock.
func (n *narrator) observe(_ context.Context, event lockguard.Event) {
	who := event.Owner
	if text := words(event); text != "" {
		n.say(who, "%s", text)
	}
	select {
	case n.once(who, event.Notice) <- struct{}{}:
	default: // no reader for that many
	}
}

// once is where a notice of a participant is sent to.
func (n *narrator) once(who string, notice lock.Notice) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := who + " " + notice.Kind()
	if n.seen[key] == nil {
		n.seen[key] = make(chan struct{}, 16)
	}
	return n.seen[key]
}

// await waits for the next event of a participant that is like this one. Each is
// waited for once.
func (n *narrator) await(ctx context.Context, who string, like lock.Notice) error {
	select {
	case <-n.once(who, like):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s of %s did not come: %w", like.Kind(), who, context.Cause(ctx))
	}
}

// words are the text of an event; "" is nothing. What two sides report at the
// same time is printed for one.
func words(event lockguard.Event) string {
	switch e := event.Notice.(type) {
	case lockguard.Waiting:
		return fmt.Sprintf("wants %s, at %s: %s", event.Scope, level(event.Priority), event.Message)
	case lock.Queued:
		return fmt.Sprintf("waits for %s", e.Holders[0].Owner)
	case lockguard.Acquired:
		return fmt.Sprintf("has %s, token %s", event.Scope, event.Token)
	case lock.PreemptRequested:
		if e.Override != nil {
			return fmt.Sprintf("! preempted: override %s of %s: %s", e.Override.ID, e.Override.By, e.Override.Reason)
		}
		if e.Forceful {
			return fmt.Sprintf("! preempted by force: for %s", e.By.Owner)
		}
		return fmt.Sprintf("! preempted: for %s, at %s", e.By.Owner, level(e.By.Priority))
	case lockguard.CleanupStarted:
		return "cleans up, still under the lock"
	case lockguard.CleanupDone:
		if e.Err == nil {
			return "has cleaned up, and gives way"
		}
		return fmt.Sprintf("✗ %s", e.Err)
	case lockguard.ApprovalPending:
		return fmt.Sprintf("! %s is still at it: an approval is needed", e.Holders[0].Owner)
	case lockguard.ApprovalDecided:
		if e.Err == nil {
			return fmt.Sprintf("may take the lock by force: %s by %s: %s", e.Decision.ID, e.Decision.By, e.Decision.Reason)
		}
		return fmt.Sprintf("may not take the lock by force: %s", e.Err)
	case lock.TakenOver:
		return fmt.Sprintf("has taken the lock from %s by force", e.From[0].Owner)
	case lockguard.NotAcquired:
		return fmt.Sprintf("✗ does not get it: %s", e.Err)
	case lockguard.Lost:
		return fmt.Sprintf("✗ has lost the lock: %s by %s", e.Err.Reason, e.Err.By)
	}
	return ""
}

func level(l priority.Level) string {
	if l == priority.Emergency {
		return "emergency priority"
	}
	return fmt.Sprintf("priority %d", l)
}
