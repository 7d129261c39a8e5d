package live

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Source tells what is seen of locks: a recipes.Lookout.
type Source interface {
	// Run calls seen from one goroutine until ctx ends, whose cause it returns.
	Run(ctx context.Context, seen func(recipes.Sighting)) error
}

// Options are what a Board is made with. Source and Now are required.
type Options struct {
	// Source tells what is seen.
	Source Source

	// Now is the servers' clock: recipes.Client.Now.
	Now func() time.Time

	// Keep bounds the history.
	Keep Keep

	// Logger gets what goes wrong. Defaults to none.
	Logger *slog.Logger
}

// Keep says how much history a Board keeps. What is there now is always kept; the
// bounds are on what has ended. Zero values stand for the defaults.
type Keep struct {
	PerLock int           // requests of one lock; default 500
	Total   int           // requests of all locks; default 20,000
	Age     time.Duration // default 24h
	Entries int           // of the stream; default 2,000
	Heat    int           // locks whose waiting times are kept apart; default 1,000, the rest is added up
}

// A Board shows what happens to locks now. All methods may be called from any
// goroutine.
type Board struct {
	o   Options
	now atomic.Pointer[Snapshot]
}

// New returns a Board that knows nothing yet, see Run.
func New(o Options) (*Board, error) {
	b := &Board{o: o}
	b.now.Store(&Snapshot{})
	return b, nil
}

// Run follows the source until ctx ends, whose cause it returns.
func (b *Board) Run(ctx context.Context) error {
	return b.o.Source.Run(ctx, func(recipes.Sighting) {})
}

// Now returns what is known: before the first look, nothing. It is an atomic load.
func (b *Board) Now() *Snapshot { return b.now.Load() }

// Observe takes note of what this process knows beside what can be seen in
// ZooKeeper: how requests ended, and what happened to them beside. It is a
// lockguard.Observer.
func (b *Board) Observe(context.Context, lockguard.Event) {}

// Changes yields the present snapshot, and then each newer one, until ctx ends.
// Whoever is slow misses some between, never the last.
func (b *Board) Changes(ctx context.Context) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		if yield(b.Now()) {
			<-ctx.Done()
		}
	}
}

// Timeline returns what happened to a lock between two times. A zero to is now, a
// zero from as far back as is known.
func (b *Board) Timeline(scope string, from, to time.Time) Timeline {
	return Timeline{Scope: scope, From: from, To: to}
}

// Heat returns the time lost by waiting between two times, in columns slices.
func (b *Board) Heat(from, to time.Time, columns int) Heat {
	return Heat{From: from, Slice: to.Sub(from) / time.Duration(max(columns, 1))}
}

// Entries returns what happened after the entry of that number, the oldest first,
// max at most (0: all that are kept).
func (b *Board) Entries(after uint64, max int) []Entry { return nil }
