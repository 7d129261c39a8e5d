package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A narrator tells what happens, one line each, and lets the story wait for it.
type narrator struct {
	mu      sync.Mutex
	out     io.Writer
	began   time.Time
	reached map[string]chan struct{}
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, began: time.Now(), reached: make(map[string]chan struct{})}
}

// say tells a line.
func (n *narrator) say(who, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = fmt.Fprintf(n.out, "  %6.2fs  %-11s%s\n", time.Since(n.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// reach says that the story has come to a point. It reports whether it is there for the first time.
func (n *narrator) reach(what string, number int) bool {
	point := n.point(what, number)
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-point:
		return false
	default:
		close(point)
		return true
	}
}

func (n *narrator) point(what string, number int) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := fmt.Sprint(what, number)
	if n.reached[key] == nil {
		n.reached[key] = make(chan struct{})
	}
	return n.reached[key]
}

// await waits until the story has come to a point.
func (n *narrator) await(ctx context.Context, what string, number int) error {
	select {
	case <-n.point(what, number):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %d has not come: %w", what, number, context.Cause(ctx))
	}
}

// observe tells the events of the repair's lock.
func (n *narrator) observe(_ context.Context, event lockguard.Event) {
	switch e := event.Notice.(type) {
	case lockguard.Waiting:
		n.say("repair", "wants %s, at priority %d: %s", event.Scope, event.Priority, event.Message)
	case lock.Queued:
		n.say("repair", "waits for %s (%s)", e.Holders[0].Owner, e.Holders[0].Message)
	case lockguard.Acquired:
		n.say("repair", "has %s, token %s, after %s", event.Scope, event.Token, e.Waited.Round(time.Millisecond))
	}
}
