// Worker is one process of the robustness suite: it takes locks at random, by
// the public API alone, and records the results. The suite starts it, and may
// kill or stop it at any moment.
//
// On standard input it understands "drain": make no new requests, wait until
// those that were made have ended, close the client, exit. At the end of
// standard input it exits at once: the suite is gone.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A worker is this process.
type worker struct {
	settings settings
	client   *lock.Client
	guard    *lockguard.Guard
	log      *history.Writer
	draining chan struct{}
}

func run() error {
	s, err := fromEnvironment()
	if err != nil {
		return err
	}
	log, err := history.Create(filepath.Join(s.Dir, s.Client+".jsonl"))
	if err != nil {
		return err
	}
	w := &worker{settings: s, log: log, draining: make(chan struct{})}
	w.client, err = lock.NewClient(lock.Config{Servers: s.Servers, SessionTimeout: s.Session, Margin: s.Margin})
	if err != nil {
		return err
	}
	if w.guard, err = lockguard.New(w.client, lockguard.WithObserver(w.observe)); err != nil {
		return err
	}
	w.tell(history.Event{Kind: history.Started, Terms: fmt.Sprintf("pid %d", os.Getpid())})
	go w.obey()
	go w.feelThePulse()

	var players sync.WaitGroup
	for i := range s.Players {
		p := &player{w: w, number: i + 1, rand: rand.New(rand.NewPCG(s.Seed, uint64(i)))}
		players.Go(p.play)
	}
	players.Wait()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = errors.Join(w.leftovers(ctx), w.client.Close(ctx))
	w.tell(history.Event{Kind: history.Stopped, Err: text(err)})
	return nil
}

// leftovers looks for requests of this process that are in ZooKeeper although all
// calls have returned: what is undone in the background has to be gone soon, and
// not by the end of the session alone.
func (w *worker) leftovers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var left []string
	for {
		locks, _, err := w.client.Locks(ctx)
		if err == nil {
			left = nil
			for _, lock := range locks {
				for _, c := range slices.Concat(lock.Holders, lock.Waiters) {
					if strings.HasPrefix(c.Owner, w.settings.Client+"/") {
						left = append(left, fmt.Sprintf("%s at %s", c.Owner, lock.Scope))
					}
				}
			}
			if len(left) == 0 {
				return nil
			}
		}
		pause := time.NewTimer(200 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("all calls have returned, and there are requests left (%v): %w",
				left, errors.Join(err, ctx.Err()))
		}
	}
}

// obey reads what the suite wants.
func (w *worker) obey() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "drain" {
			close(w.draining)
		}
	}
	os.Exit(3) // the suite has stopped reading
}

// feelThePulse notices that the process has not run for a while, because the
// machine is busy or somebody has stopped it: what such a process was told too
// late is not the product's fault.
func (w *worker) feelThePulse() {
	last := history.Now()
	for range time.Tick(w.settings.Stall / 8) {
		now := history.Now()
		if now-last > w.settings.Stall {
			w.tell(history.Event{At: now, Kind: history.Stalled, From: last})
		}
		last = now
	}
}

// tell writes an event down. A process that cannot do that is of no use.
func (w *worker) tell(e history.Event) {
	if e.At == 0 {
		e.At = history.Now()
	}
	e.Client = w.settings.Client
	if err := w.log.Write(e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
}

func (w *worker) isDraining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

// pause waits, unless the worker drains.
func (w *worker) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.draining:
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
