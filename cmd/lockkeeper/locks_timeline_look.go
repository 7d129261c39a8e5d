package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// wholeLook is how long the first look at all locks may take.
const wholeLook = 30 * time.Second

// lookAt looks at a lock for a while, or until a signal comes, and returns what
// is known then of the time since back before.
func (p *program) lookAt(
	ctx context.Context, client *lock.Client, scope string, length, back time.Duration,
) (t live.Timeline, err error) {
	// Of a silent ZooKeeper, or one that refuses, this knows at once.
	if _, err := client.Lock(ctx, scope); err != nil {
		return t, err
	}
	lookout, err := client.Lookout(lock.LookoutOptions{})
	if err != nil {
		return t, err
	}
	board, err := live.New(live.Options{Source: lookout, Now: client.Now, Logger: p.quiet()})
	if err != nil {
		return t, err
	}
	looking, stop := context.WithCancel(context.WithoutCancel(ctx)) // a signal ends the time, not what is known
	ended := make(chan error, 1)
	go func() { ended <- board.Run(looking) }()
	defer func() {
		stop()
		if failure := <-ended; err == nil && !errors.Is(failure, context.Canceled) {
			err = failure // nothing was seen
		}
	}()
	if err := awaitComplete(ctx, board, ended); err != nil {
		return t, err
	}
	if length > 0 {
		p.say("looking at %s for %s; Ctrl-C ends that earlier", scope, length)
	}
	enough := time.NewTimer(length)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-ctx.Done():
		if !errors.As(context.Cause(ctx), new(*jobs.SignalError)) {
			return t, context.Cause(ctx)
		}
	case failure := <-ended:
		ended <- nil
		return t, failure
	}
	now := client.Now()
	if t = board.Timeline(scope, time.Time{}, now); t.From.Before(now.Add(-back)) {
		t = board.Timeline(scope, now.Add(-back), now)
	}
	snap := board.Now()
	if blind := snap.Blind; blind != nil {
		p.say("ZooKeeper does not answer since %s: what has happened then is missing", clock(blind.Since))
	}
	if len(t.Rows) == 0 {
		return t, noRequests(snap, scope)
	}
	return t, nil
}

// awaitComplete waits until a board has seen all locks, or its run has ended.
func awaitComplete(ctx context.Context, board *live.Board, ended chan error) error {
	waiting, cancel := context.WithTimeout(ctx, wholeLook)
	defer cancel()
	seen := make(chan bool, 1)
	go func() {
		for snap := range board.Changes(waiting) {
			if snap.Complete {
				seen <- true
				return
			}
		}
		seen <- false
	}()
	select {
	case complete := <-seen:
		switch {
		case complete:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		return &silentError{wholeLook}
	case failure := <-ended:
		ended <- nil // for those who wait for it
		return failure
	}
}

// noRequests is an error where the lock has never been there, which may well be a
// matter of spelling.
func noRequests(snap *live.Snapshot, scope string) error {
	for _, l := range snap.Locks {
		if l.Scope == scope {
			return nil
		}
	}
	return neverLocked(scope, "lockkeeper locks ls lists those that there are")
}

func neverLocked(scope, next string) error {
	return &codeError{
		exitConfig,
		fmt.Sprintf("lock %q was never locked; look at the spelling: a scope is written in full, and %s", scope, next),
	}
}
