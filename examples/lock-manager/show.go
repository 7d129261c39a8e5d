package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// patience is how long the locks may take to be where they belong, beside the
// session timeout of one that was killed.
const patience = 30 * time.Second

// An outcome is what became of the locks of the first participant.
type outcome struct {
	moved     int           // locks that have another holder
	survivors int           // of these, locks that a survivor had
	took      time.Duration // until every lock had a holder again
}

// A runner is a participant in this process or in another one.
type runner interface {
	stop(ctx context.Context) error // it leaves
}

// show runs the participants, stops the first one and tells what happens.
//
//nolint:funlen // the story of the demo
func show(
	ctx context.Context, cfg lock.Config, spec group.Spec, s settings, stdout io.Writer,
) (result outcome, err error) {
	out := &lines{w: stdout, acquired: map[string]string{}}
	client, err := lock.NewClient(cfg)
	if err != nil {
		return result, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()

	running, err := startAll(ctx, cfg, spec, s, out)
	defer func() {
		out.end()
		var work errgroup.Group
		for _, r := range running {
			work.Go(func() error { return r.stop(context.WithoutCancel(ctx)) })
		}
		err = errors.Join(err, work.Wait())
	}()
	if err != nil {
		return result, err
	}
	before, err := settled(ctx, client, spec, spec.Participants, out)
	if err != nil {
		return result, err
	}
	out.table(before)

	first := spec.Participants[0]
	start := time.Now()
	if process, ok := running[0].(*child); ok {
		out.tell("Killing the first participant")
		process.kill()
	} else {
		out.tell("Stopping the first participant")
		err = running[0].stop(ctx)
	}
	running = running[1:]
	if err != nil {
		return result, err
	}
	out.tell("%s Interrupted", first)
	after, err := settled(ctx, client, spec, spec.Participants[1:], out)
	if err != nil {
		return result, err
	}
	result.took = time.Since(start)
	out.table(after)

	for lock, holder := range before {
		if after[lock] != holder {
			result.moved++
			if holder != first {
				result.survivors++
			}
		}
	}
	out.tell("%d of %d locks moved; survivors lost %d; all were held again after %s",
		result.moved, len(before), result.survivors, result.took.Round(time.Millisecond))
	return result, nil
}

// startAll starts all participants at once. Those that were started are
// returned with an error, too.
func startAll(ctx context.Context, cfg lock.Config, spec group.Spec, s settings, out *lines) ([]runner, error) {
	all := make([]runner, len(spec.Participants))
	var work errgroup.Group
	for i, name := range spec.Participants {
		work.Go(func() error {
			if s.kill {
				process, err := startChild(cfg, s, name, out)
				if err == nil {
					all[i] = process
				}
				return err
			}
			p, err := join(ctx, cfg, spec, name, out)
			if err == nil {
				all[i] = p
			}
			return err
		})
	}
	err := work.Wait()
	return slices.DeleteFunc(all, func(r runner) bool { return r == nil }), err
}

// settled waits until exactly these participants are there, and each
// lock is held by the one that shall hold it. It returns who that is.
func settled(
	ctx context.Context, client *lock.Client, spec group.Spec, names []string, out *lines,
) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		state, err := group.StateOf(ctx, client.Client, spec.Name)
		if _, missing := errors.AsType[*group.NotFoundError](err); err != nil && !missing {
			return nil, err
		}
		if holders := holdersOf(state, names); holders != nil && out.told(holders) {
			return holders, nil
		}
		select {
		case <-ctx.Done():
			return nil,
				fmt.Errorf("the locks of %s are not where they belong within %s: %w", spec.Name, patience, context.Cause(ctx))
		case <-look.C:
		}
	}
}

// holdersOf returns who holds each lock; nil while anything is on its way.
func holdersOf(state group.State, names []string) map[string]string {
	var there []string
	for _, m := range state.Members {
		there = append(there, m.Name)
	}
	slices.Sort(there)
	if !slices.Equal(there, slices.Sorted(slices.Values(names))) {
		return nil
	}
	counts, holders := map[string]int{}, map[string]string{}
	for _, l := range state.Locks {
		if len(l.Holders) != 1 || l.Holders[0].Releasing || !slices.Equal(l.Planned, []string{l.Holders[0].Name}) {
			return nil
		}
		holders[l.Lock] = l.Holders[0].Name
		counts[l.Holders[0].Name]++
	}
	for _, name := range names {
		if counts[name] == 0 { // it has only come
			return nil
		}
	}
	return holders
}

// table prints who holds what, the locks in lexicographic order.
func (l *lines) table(holders map[string]string) {
	width := len("lockName")
	for lock := range holders {
		width = max(width, len(lock))
	}
	l.tell("%-*s acquired By", width, "lockName")
	for _, lock := range slices.Sorted(maps.Keys(holders)) {
		l.tell("%-*s %s", width, lock, holders[lock])
	}
}

// lines is a writer for many: each write is a line of its own.
type lines struct {
	mu       sync.Mutex
	w        io.Writer
	acquired map[string]string // who said last that it has acquired a lock
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name, lock, ok := strings.Cut(strings.TrimSpace(string(line)), " acquired lock:"); ok {
		l.acquired[lock] = name
	}
	return l.w.Write(line)
}

// told tells whether these have said that they have the locks.
func (l *lines) told(holders map[string]string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Equal(l.acquired, holders)
}

// end lets nothing through any more.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = io.Discard
}

func (l *lines) tell(format string, args ...any) { _, _ = fmt.Fprintf(l, format+"\n", args...) }
