package ticks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Ledger makes each tick of a schedule run at most once in the cluster,
// and end in exactly one recorded outcome. A tick is a job and an instant.
// Before it runs a tick, a process claims it: a compare-and-set of the job's one
// node, which holds the last instant that was decided. An instant that is not
// later than that is taken. So the first one to claim wins, whatever the clocks
// say and however short the job is, and as long as every process decides the
// instants of a job in order, none is forgotten while one process lives.
//
//	<root>/ticks/<job>            persistent: the last instant, the runs that go on, the ticks that wait, the pause, counts, the history
//	<root>/ticks/<job>/run-<id>   ephemeral: the process of that run lives
//	<root>/requests/<id>          ephemeral: a client asks for a run by hand, and waits
//
// The history is in ZooKeeper, and in the same node, because the write that
// decides a tick is the one that records what became of it: there is exactly
// one outcome by construction, every daemon and operator sees all of them, and
// it costs no further write. It is a ring of 32 entries that keeps the node
// below 6 KiB or so; long archives belong into logs.
//
// The node must not be deleted while processes decide ticks of the job: the
// slower ones would run again what they find unclaimed.
//
// All methods may be called from any goroutine, and wait for ZooKeeper as long
// as ctx lives. One that fails because ctx ends returns its cause joined with an
// *UnavailableError, and may have been executed; the next call for the same job
// finds that out and puts it right.
type Ledger struct {
	store    tickStore
	root     string // of the jobs
	requests string
	acl      func() []zkclient.ACLEntry // of what is made; nil: none
	self     tickOwner

	mu     sync.Mutex
	open   map[string]*openTick   // the runs of this ledger, by id
	jobs   map[string]*tickMemory // by name
	plain  int                    // bytes of what is remembered there, unless it is packed
	tidied time.Time              // when jobs were forgotten last
	failed int                    // calls for any job that was forgotten, at most: others count on from there
}

// New returns the ledger of the client's root. Each has an identity of
// its own: a process needs one. The owner names the process for people;
// defaults to "host:pid".
func New(c *zkclient.Client, owner string) *Ledger {
	if owner == "" {
		owner = fmt.Sprintf("%s:%d", c.Host(), c.PID())
	}
	self := tickOwner{Ledger: znode.NewGUID(), Owner: owner, Host: c.Host(), PID: c.PID()}
	return newTickLedger(c, c.Root(), c.ACL, self)
}

func newTickLedger(store tickStore, root string, acl func() []zkclient.ACLEntry, self tickOwner) *Ledger {
	return &Ledger{
		store: store, root: root + "/ticks", requests: root + "/requests", acl: acl, self: self,
		open: make(map[string]*openTick), jobs: make(map[string]*tickMemory),
	}
}

// Verdict is the answer to a claim.
type Verdict uint8

// The answers to a claim.
const (
	Taken    Verdict = iota // it was decided before, here or elsewhere; of ClaimWaiting: nothing waits
	Claimed                 // it is the caller's: run it, then Finish
	Overlap                 // others go on: recorded as skipped, or only told
	Buffered                // it waits for the end of others: ClaimWaiting
	Paused                  // the job is paused: recorded as skipped; of ClaimWaiting: it goes on waiting
	LeftOut                 // it ran before it was due, or may have: recorded as skipped; see Rewind
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Taken:
		return "taken"
	case Claimed:
		return "claimed"
	case Overlap:
		return "overlap"
	case Buffered:
		return "buffered"
	case Paused:
		return "paused"
	case LeftOut:
		return "left out"
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// OnOverlap says what a claim does when a run still goes on, or ticks wait: they
// go first.
type OnOverlap uint8

// What a claim can do on an overlap.
const (
	SkipOverlap   OnOverlap = iota // record the tick as skipped
	TellOverlap                    // only tell; the claim can be repeated
	BufferOverlap                  // let it wait, if fewer than Max do; else skip it
	CancelOverlap                  // cancel the runs, skip what waits, and wait
	AllowOverlap                   // run beside them, if fewer than Max go on; else skip it
)

// Ask says how to claim a tick.
type Ask struct {
	OnOverlap OnOverlap

	// Max is how many ticks may wait (BufferOverlap), or how many runs may go on
	// at once (AllowOverlap); others ignore it. Defaults to 1.
	Max int

	// ClockAhead is how far the clock of the caller's machine is ahead of
	// ZooKeeper's (positive) or behind it (negative), for the record of the run.
	// Less than Tolerance is not recorded.
	ClockAhead time.Duration

	// Definition is the fingerprint of what the caller means by the name of the
	// job. Defaults to "": it is not compared with that of others.
	Definition string
}

// Reasons for a skip that the ledger itself records.
const (
	ReasonOverlap   = "overlap"   // a run still went on
	ReasonPaused    = "paused"    // the job was paused
	ReasonEarly     = "early"     // it ran before it was due, or may have: see Rewind
	ReasonUndecided = "undecided" // the claim's reply came too late to run it
)

// Claim is what became of a claim.
type Claim struct {
	Verdict     Verdict
	Run         Run       // claimed: this run; overlap, buffered: the oldest run in the way, if there is one
	Interrupted []Run     // claimed, recorded: runs that were found dead
	Last        time.Time // taken: the last instant that was decided
	Waiting     int       // ticks that wait, after this
	Paused      *Pause    // paused: why

	// Compared: the definition of the caller was compared with those of others, and
	// Differing are those that others have at the same time. By is the caller.
	Compared  bool
	Differing []Definition
	By        Definition
}

// Finish is what the end of a run has led to.
type Finish struct {
	Waiting int    // ticks that wait, after this: ClaimWaiting
	Paused  *Pause // the pause that this end has led to, nil if it has not
}

// Begin returns the instant up to which the ticks of job are decided; first is
// the caller's first one. A job without a decided tick begins with the first of
// the first caller, for good: earlier instants count as decided. So processes
// that start together, with clocks that differ, do not leave out what lies
// between their first ticks.
func (l *Ledger) Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error) {
	if err := l.due(ctx, job, first); err != nil {
		return time.Time{}, err
	}
	rec, err := l.update(ctx, job, func(v *tickView) (w tickWrite) {
		if v.record.decided().IsZero() {
			v.record.Begins = first.UTC().Round(0)
			w.set = true
		}
		return w
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("last tick of job %q not known: %w", job, l.explain(ctx, err))
	}
	return rec.decided(), nil
}

// Claim asks for the tick of job at instant. It is idempotent: a claim that
// failed can be repeated.
//
// A run that is still recorded as going on but whose process has died is
// recorded as interrupted. One whose process lives is an overlap, and so is a
// tick that waits.
func (l *Ledger) Claim(ctx context.Context, job string, instant time.Time, ask Ask) (Claim, error) {
	c := l.newClaim(job, runNote{Instant: instant.UTC().Round(0)})
	if ask.ClockAhead.Abs() > Tolerance {
		c.note.ClockAhead = ask.ClockAhead.Milliseconds()
	}
	if claim, ok := l.taken(job, c.note.Instant); ok {
		return claim, nil
	}
	if err := l.due(ctx, job, instant); err != nil {
		return Claim{}, err
	}
	limit := 1
	if ask.OnOverlap == AllowOverlap {
		limit = max(1, ask.Max)
	}
	c.definition = ask.Definition
	return c.do(ctx, l.recall(job, false), func(v *tickView) tickWrite { return c.define(v, c.tick(v, ask, limit)) })
}

// ClaimWaiting asks for the oldest tick of job that waits, when fewer than
// limit runs go on whose process lives. The verdict is claimed, overlap, paused,
// or taken: nothing waits. Nothing is skipped by it.
func (l *Ledger) ClaimWaiting(ctx context.Context, job string, limit int) (Claim, error) {
	c := l.newClaim(job, runNote{Waited: true})
	return c.do(ctx, l.recall(job, false), func(v *tickView) tickWrite { return c.waiting(v, max(1, limit)) })
}

// ClaimManual asks to run job outside its schedule. at is kept as the run's
// instant but decides nothing: no tick is taken by it. The verdict is claimed
// or overlap; an overlap is not recorded. A pause does not refuse it.
func (l *Ledger) ClaimManual(ctx context.Context, job string, at time.Time) (Claim, error) {
	c := l.newClaim(job, runNote{Instant: at.UTC().Round(0), Manual: true})
	return c.do(ctx, nil, func(v *tickView) tickWrite { return c.manual(v, 1) })
}

// Finish records how a claimed run ended. It is idempotent, and must be
// repeated until it returns nil or a *InterruptedError: until then the next
// ticks of the job overlap with the run.
func (l *Ledger) Finish(ctx context.Context, run Run, end End) (Finish, error) {
	interrupted := false
	rec, err := l.updateFrom(ctx, run.Job, l.recall(run.Job, true), nil, func(v *tickView) (w tickWrite) {
		rec := &v.record
		if i := rec.run(run.ID); i >= 0 {
			l.ending(run.ID)
			w.set = true
			w.unmark(v, run.ID)
			rec.finish(i, end)
			return w
		}
		// Either an earlier try has done it, or another process has given up on us.
		if e := rec.ended(run.ID); e != nil {
			interrupted = e.Outcome == Interrupted && (end.Outcome != Interrupted || !l.wasEnding(run.ID))
		} else {
			interrupted = !l.wasEnding(run.ID)
		}
		return w
	})
	if err != nil {
		l.failing(run.Job)
		return Finish{}, fmt.Errorf("end of the run of job %q at %s not recorded: %w",
			run.Job, run.Instant.Format(time.RFC3339), l.explain(ctx, err))
	}
	l.close(run.ID)
	finish := Finish{Waiting: len(rec.Waiting)}
	if rec.Paused != nil && rec.Paused.ID == run.ID {
		finish.Paused = rec.Paused.public()
	}
	if interrupted {
		return finish, &InterruptedError{Job: run.Job, Instant: run.Instant}
	}
	return finish, nil
}

// RecordSkip records instants of job, in ascending order, as skipped for a
// reason. It leaves out those that were decided before, and returns how many
// it recorded. Without instants it does nothing but put right what a call that
// failed has left behind.
func (l *Ledger) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (recorded int, err error) {
	if n := len(instants); n > 0 {
		if err := l.due(ctx, job, instants[n-1]); err != nil {
			return 0, err
		}
	}
	id := znode.NewGUID()
	failed := l.failures(job)
	_, err = l.update(ctx, job, func(v *tickView) (w tickWrite) {
		rec := &v.record
		if rec.ended(id) != nil {
			return w // done before the connection was lost
		}
		recorded = 0
		var undecided time.Time
		l.settle(v, &w, func(n *runNote) bool {
			mine := !n.Manual && !n.Waited && slices.ContainsFunc(instants, n.Instant.Equal)
			if mine {
				undecided = n.Instant
			}
			return mine
		})
		for _, instant := range instants {
			if instant.After(rec.decided()) || instant.Equal(undecided) {
				instant = instant.UTC().Round(0)
				rec.Last = later(rec.Last, instant)
				rec.skip(id, instant, reason)
				recorded++
				w.set = true
			}
		}
		return w
	})
	if err != nil {
		l.failing(job)
		return 0, fmt.Errorf("skipped tick of job %q not recorded: %w", job, l.explain(ctx, err))
	}
	l.settled(job, failed)
	return recorded, nil
}

// Span is a stretch of ticks: how many, from the first to the last.
type Span struct {
	First, Last time.Time
	Count       int64
}

// RecordMissed records a long stretch of undecided ticks as skipped for a
// reason: one entry with a count. If something of it is decided, it records
// nothing, and decided tells how far others have got. It is idempotent while
// the entry is in the history.
func (l *Ledger) RecordMissed(
	ctx context.Context, job, reason string, span Span,
) (recorded bool, decided time.Time, err error) {
	if span.Count < 1 || span.Last.Before(span.First) {
		return false, time.Time{}, &zkclient.RequestError{Field: "span", Reason: fmt.Sprintf(
			"%d ticks from %s to %s; write at least one, the first one first", span.Count, span.First, span.Last)}
	}
	if err := l.due(ctx, job, span.Last); err != nil {
		return false, time.Time{}, err
	}
	id := znode.NewGUID()
	failed := l.failures(job)
	rec, err := l.update(ctx, job, func(v *tickView) (w tickWrite) {
		rec := &v.record
		if recorded = rec.ended(id) != nil; recorded {
			return w // before the connection was lost
		}
		l.settle(v, &w, func(*runNote) bool { return false })
		if recorded = span.First.After(rec.decided()); recorded {
			rec.Last = span.Last.UTC().Round(0)
			rec.end(endNote{
				runNote: runNote{ID: id, Instant: rec.Last}, Outcome: Skipped, Reason: reason, First: span.First.UTC().Round(0),
			}, span.Count)
			w.set = true
		}
		return w
	})
	if err != nil {
		l.failing(job)
		return false, time.Time{}, fmt.Errorf("missed ticks of job %q not recorded: %w", job, l.explain(ctx, err))
	}
	l.settled(job, failed)
	return recorded, rec.decided(), nil
}
