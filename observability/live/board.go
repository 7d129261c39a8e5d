package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Source tells what is seen of locks: a lock.Lookout.
type Source interface {
	// Run calls seen from one goroutine until ctx ends, whose cause it returns.
	Run(ctx context.Context, seen func(lock.Sighting)) error
}

var _ Source = (*lock.Lookout)(nil)

// Options are what a Board is made with. Source and Now are required.
type Options struct {
	// Source tells what is seen.
	Source Source

	// Now is the servers' clock: lock.Client.Now.
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

func (k *Keep) complete() error {
	if k.PerLock < 0 || k.Total < 0 || k.Age < 0 || k.Entries < 0 || k.Heat < 0 {
		return fmt.Errorf("live: Keep has a negative bound: %+v", *k)
	}
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&k.PerLock, 500)
	set(&k.Total, 20_000)
	set(&k.Entries, 2000)
	set(&k.Heat, 1000)
	if k.Age == 0 {
		k.Age = 24 * time.Hour
	}
	return nil
}

// A Board shows what happens to locks now. All methods may be called from any
// goroutine.
type Board struct {
	o   Options
	now atomic.Pointer[Snapshot]

	wake chan struct{} // something is to be shown

	mu         sync.Mutex
	books      map[string]*book
	blind      *Blind
	idle       *Blind            // not read since
	complete   bool              // in this run
	unreadable []lock.Unreadable // in the place of locks
	knows      bool              // it was complete once: what happens is news
	run        int
	began      time.Time // nothing is known before; zero: nothing is known
	stream     ring
	heat       warmth
	ended      []*entrant // of all locks; the one that ended first is first
	kept       int        // of those
	knownEnds  knownEnds
	doubts     doubts
	circles    map[string]circle // that are there
	changed    chan struct{}     // closed by the next snapshot
	running    bool
}

// New returns a Board that knows nothing yet, see Run.
func New(o Options) (*Board, error) {
	switch {
	case o.Source == nil:
		return nil, errors.New("live: a Board needs a Source; give it a lock.Lookout")
	case o.Now == nil:
		return nil, errors.New("live: a Board needs the servers' clock; give it the Now of a lock.Client")
	}
	if err := o.Keep.complete(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Board{
		o: o, wake: make(chan struct{}, 1), books: map[string]*book{}, stream: ring{most: o.Keep.Entries},
		heat: newWarmth(o.Keep.Heat), circles: map[string]circle{}, changed: make(chan struct{}),
	}
	b.now.Store(&Snapshot{Locks: []Lock{}, Waits: waits{}.graph()})
	return b, nil
}

// Run follows the source until ctx ends, whose cause it returns, or the source
// does: then the snapshot is Blind. It runs once at a time; when it runs again, what
// changed meanwhile shows as if it had just happened, or with an end that is unknown.
func (b *Board) Run(ctx context.Context) error {
	b.mu.Lock()
	if b.running {
		b.mu.Unlock()
		return errors.New("live: the Board runs already")
	}
	b.running, b.complete, b.unreadable = true, false, nil
	b.run++
	if b.idle != nil {
		b.ring() // all that is known is old
	}
	b.mu.Unlock()
	showing, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // until all has been seen
	var work sync.WaitGroup
	work.Go(func() { b.show(showing) })
	err := b.o.Source.Run(ctx, b.see)
	since := b.o.Now().UTC()
	b.mu.Lock()
	if b.idle == nil {
		b.idle = &Blind{Since: since, Reason: "watching has stopped"}
		if err != nil {
			b.idle.Reason += ": " + words.Clip(err.Error(), longText)
		}
	}
	b.mu.Unlock()
	stop(err)
	work.Wait()
	b.mu.Lock()
	b.running = false
	b.mu.Unlock()
	return err
}

// see takes note of a sighting.
func (b *Board) see(s lock.Sighting) {
	now := b.o.Now()
	b.mu.Lock()
	if b.began.IsZero() {
		b.began = now
	}
	switch {
	case s.Blind != nil:
		b.lookAway(s.Blind)
	case s.Synced:
		b.lookAgain(now)
	case s.Unreadable != nil:
		b.unreadable = s.Unreadable
	default:
		b.turn(s, now)
	}
	b.mu.Unlock()
	b.ring()
}

// ring makes a new snapshot be shown.
func (b *Board) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Board) lookAway(s *lock.Blindness) {
	if b.blind != nil {
		return
	}
	reason := "ZooKeeper does not answer"
	if s.Err != nil {
		reason = s.Err.Error()
	}
	b.blind = &Blind{Since: s.Since.UTC(), Reason: reason}
	b.news(Entry{At: s.Since, Kind: EntryBlind, Text: words.Clip(reason, longText)})
	b.o.Logger.Warn("the live view of locks is out of date", "reason", reason)
}

func (b *Board) lookAgain(now time.Time) {
	if was := b.blind; was != nil {
		b.blind = nil
		b.news(Entry{At: now, Kind: EntrySighted, Text: "ZooKeeper answers again, after " + Human(now.Sub(was.Since))})
	}
	for _, k := range sorted(b.books) { // those that were collected while the board did not watch
		if k.run != b.run && !k.gone {
			b.turn(lock.Sighting{State: lock.State{Scope: k.scope}, Gone: true}, now)
		}
	}
	b.idle = nil
	b.complete, b.knows = true, true
}

// news puts an entry into the stream.
func (b *Board) news(e Entry) { b.stream.add(e) }

// warm adds a wait that is over to the heat.
func (b *Board) warm(e *entrant, end time.Time) {
	b.heat.add(e.book.scope, latest(e.joined, e.waited), end)
	e.waited = end
}

// keep puts a request whose part is over into the history, and forgets what is
// too much or too old.
func (b *Board) keep(e *entrant) {
	e.book.ended = append(e.book.ended, e)
	b.ended = append(b.ended, e)
	b.kept++
	if len(e.book.ended) > b.o.Keep.PerLock {
		b.drop(e.book.ended[0])
	}
	b.tidy(e.over)
}

// tidy forgets what is too much or too old.
func (b *Board) tidy(now time.Time) {
	for len(b.ended) > 0 {
		oldest := b.ended[0]
		if !oldest.dropped {
			if b.kept <= b.o.Keep.Total && now.Sub(oldest.over) <= b.o.Keep.Age {
				break
			}
			b.drop(oldest)
		}
		b.ended[0] = nil
		b.ended = b.ended[1:]
	}
	if spare := 64; len(b.ended) > 2*b.kept+spare { // of busy locks, behind those of quiet ones
		b.ended = slices.DeleteFunc(b.ended, func(e *entrant) bool { return e.dropped })
	}
}

// drop forgets a request.
func (b *Board) drop(e *entrant) {
	k := e.book
	b.kept--
	e.dropped = true
	e.row, e.marks, e.contender = Row{}, nil, lock.Contender{}
	for len(k.ended) > 0 && k.ended[0].dropped {
		k.ended[0] = nil
		k.ended = k.ended[1:]
	}
	b.close(k)
}

// close forgets a lock that was collected, and of which nothing is kept.
func (b *Board) close(k *book) {
	if k.gone && len(k.ended)+len(k.present) == 0 {
		delete(b.books, k.scope)
	}
}

// Now returns what is known: before the first look, nothing. It is an atomic load.
func (b *Board) Now() *Snapshot { return b.now.Load() }

// Changes yields the present snapshot, and then each newer one, until ctx ends.
// A slow reader misses some in between, never the last.
func (b *Board) Changes(ctx context.Context) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		for {
			b.mu.Lock()
			now, changed := b.Now(), b.changed // read together: no snapshot is yielded twice
			b.mu.Unlock()
			if ctx.Err() != nil || !yield(now) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Timeline returns what happened to a lock between two times. A zero to is now, a
// zero from as far back as is known.
func (b *Board) Timeline(scope string, from, to time.Time) Timeline {
	now := b.o.Now()
	if to.IsZero() {
		to = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidy(now)
	t := Timeline{Scope: scope, From: from.UTC(), To: to.UTC(), Rows: []Row{}, Marks: []Mark{}, Known: b.knownSince(now)}
	if k := b.books[scope]; k != nil {
		t.Rows, t.Marks = k.timeline(from, to)
	}
	if from.IsZero() {
		t.From = latest(t.Known, time.Time{})
		if t.From.IsZero() {
			t.From = t.To
		}
		for _, r := range t.Rows {
			t.From = earliest(t.From, r.Spells[0].From)
		}
	}
	return t
}

func (b *Board) knownSince(now time.Time) time.Time {
	if b.began.IsZero() {
		return b.began
	}
	return latest(b.began, now.Add(-b.o.Keep.Age)).UTC()
}

// Entries returns what happened after the entry of that number, the oldest first,
// most at most (0: all that are kept). A first one whose number is greater than the
// next says that those between are kept no more.
func (b *Board) Entries(after uint64, most int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream.after(after, most)
}
