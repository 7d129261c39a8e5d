package nightly

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// The jobs work on a small data set, and pause so that it seems a large one.
const (
	pausePerSegment    = 450 * time.Millisecond // 12 of them: a compaction takes about 5.4s
	pausePerBackupFile = 150 * time.Millisecond // 14 of them: a backup takes about 2.1s
	pausePerCorrection = 350 * time.Millisecond
	pausePerCleanup    = 400 * time.Millisecond
	correctionsEach    = 3
)

// work is what the jobs do. The names are those of nightly.yaml. Nothing here
// takes a lock or asks for one: the configuration says which one a job needs.
type work struct {
	set *orders.Set
	say func(job, text string) // for the timeline
}

func (w *work) byName() map[string]jobs.Work {
	return map[string]jobs.Work{
		"backup":  jobs.WithCleanup(jobs.Func(w.backup), w.discard),
		"compact": jobs.WithCleanup(jobs.Func(w.compact), w.putBack),
		"hotfix":  jobs.WithCleanup(jobs.Func(w.hotfix), w.putBack),
	}
}

// compact rewrites one file after the other without the old versions of orders.
// When ctx ends it returns at once: putBack runs then, still under the lock.
func (w *work) compact(ctx context.Context, run jobs.Run) error {
	change, err := w.set.Begin(run.Job, token(ctx))
	if err != nil {
		return err
	}
	for _, segment := range change.Segments() {
		if err := pause(ctx, pausePerSegment); err != nil {
			return err
		}
		records, err := change.Read(segment)
		if err != nil {
			return err
		}
		if err := change.Write(segment, orders.Latest(records)); err != nil {
			return err
		}
	}
	w.say(run.Job, fmt.Sprintf("rewrote %d files", len(change.Segments())))
	return change.Commit()
}

// hotfix corrects a few orders, each together with another one.
func (w *work) hotfix(ctx context.Context, run jobs.Run) error {
	change, err := w.set.Begin(run.Job, token(ctx))
	if err != nil {
		return err
	}
	for range correctionsEach {
		if err := pause(ctx, pausePerCorrection); err != nil {
			return err
		}
		if err := change.Move(rand.IntN(orders.Count), rand.IntN(orders.Count), 1+rand.IntN(500)); err != nil {
			return err
		}
	}
	w.say(run.Job, fmt.Sprintf("corrected %d pairs", correctionsEach))
	return change.Commit()
}

// putBack is the cleanup of a change that was interrupted.
func (w *work) putBack(ctx context.Context, run jobs.Run) error {
	if err := pause(ctx, pausePerCleanup); err != nil {
		return err
	}
	files, err := w.set.Restore(token(ctx))
	w.say(run.Job, "put "+count(files, "file")+" back")
	return err
}

// backup copies all files into one tar file.
func (w *work) backup(ctx context.Context, run jobs.Run) (err error) {
	backup, err := w.set.BeginBackup(token(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	for _, file := range backup.Files() {
		if err := pause(ctx, pausePerBackupFile); err != nil {
			return err
		}
		if err := backup.Add(file); err != nil {
			return err
		}
	}
	w.say(run.Job, fmt.Sprintf("saved %d files", len(backup.Files())))
	return backup.Finish()
}

// discard is the cleanup of a backup that was interrupted.
func (w *work) discard(ctx context.Context, run jobs.Run) error {
	if err := pause(ctx, pausePerCleanup); err != nil {
		return err
	}
	_, err := w.set.Discard(token(ctx))
	w.say(run.Job, "removed the half backup")
	return err
}

// token returns the fencing token of the lock that ctx carries, which goes to
// whatever the job writes to. It is 0 without a lock.
func token(ctx context.Context) int64 {
	hold, ok := lockguard.FromContext(ctx)
	if !ok {
		return 0
	}
	return int64(hold.Token())
}

// pause waits, but not longer than ctx lives.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
