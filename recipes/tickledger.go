package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A TickLedger makes each tick of a schedule run at most once in the cluster.
// A tick is a job and an instant. Before it runs a tick, a process claims it:
// a compare-and-set of the job's one node, which holds the last instant that
// was claimed. An instant that is not later than that is taken. So the first
// one to claim wins, whatever the clocks say and however short the job is, and
// as long as every process decides the instants of a job in order, none is
// forgotten while one process lives.
//
//	<root>/ticks/<job>            persistent: the last instant, the run that goes on, how the last one ended, counts
//	<root>/ticks/<job>/run-<id>   ephemeral: the process of that run lives
//
// The node must not be deleted while processes decide ticks of the job: the
// slower ones would run again what they find unclaimed.
//
// All methods may be called from any goroutine, and wait for ZooKeeper as long
// as ctx lives. One that fails because ctx ends returns its cause joined with an
// *UnavailableError, and may have been executed; the next call for the same job
// finds that out and puts it right.
type TickLedger struct {
	store tickStore
	root  string
	acl   []zk.ACL
	self  tickOwner

	mu   sync.Mutex
	open map[string]*openTick // the runs of this ledger, by id
}

// TickLedger returns the ledger of the client's root. Each has an identity of
// its own: a process needs one. The owner names the process for people;
// defaults to "host:pid".
func (c *Client) TickLedger(owner string) *TickLedger {
	if owner == "" {
		owner = fmt.Sprintf("%s:%d", c.host, c.pid)
	}
	self := tickOwner{Ledger: newGUID(), Owner: owner, Host: c.host, PID: c.pid}
	return newTickLedger(c, c.root, c.acl, self)
}

// tickStore is what a ledger needs of a *Client.
type tickStore interface {
	create(ctx context.Context, path string, data []byte, flags int32) (string, error)
	ensure(ctx context.Context, path string) error
	get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	unavailable() *UnavailableError
}

var _ tickStore = (*Client)(nil)

func newTickLedger(store tickStore, root string, acl []zk.ACL, self tickOwner) *TickLedger {
	return &TickLedger{store: store, root: root + "/ticks", acl: acl, self: self, open: make(map[string]*openTick)}
}

// openTick is a run that this ledger has claimed, or is about to.
type openTick struct {
	ending bool // its end has been sent, perhaps in vain
}

// TickVerdict is the answer to a claim.
type TickVerdict uint8

// The answers to a claim.
const (
	TickTaken   TickVerdict = iota // it was decided before, here or elsewhere
	TickClaimed                    // it is the caller's: run it, then Finish
	TickOverlap                    // the previous run goes on
)

// String returns the verdict in lower case.
func (v TickVerdict) String() string {
	switch v {
	case TickTaken:
		return "taken"
	case TickClaimed:
		return "claimed"
	case TickOverlap:
		return "overlap"
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// OnOverlap says what a claim does when the previous run still goes on.
type OnOverlap uint8

// What a claim can do on an overlap.
const (
	SkipOverlap OnOverlap = iota // record the tick as skipped
	TellOverlap                  // only tell; the claim can be repeated
)

// Reasons for a skip that the ledger itself records.
const (
	TickReasonOverlap   = "overlap"   // the previous run still went on
	TickReasonUndecided = "undecided" // the claim's reply came too late to run it
)

// TickClaim is what became of a claim.
type TickClaim struct {
	Verdict     TickVerdict
	Run         TickRun  // claimed: this run; overlap: the run in the way
	Interrupted *TickRun // claimed: the previous run, if its process was found dead

	// Last is, for a tick that is taken, the last instant that was decided.
	Last time.Time
}

// Begin returns the instant up to which the ticks of job are decided; first is
// the caller's first one. A job of which nobody has decided a tick begins with
// the first of the first caller, for good: earlier instants count as decided.
// So processes that start together, with clocks that differ, do not leave out
// what lies between their first ticks.
func (l *TickLedger) Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error) {
	_, err = l.update(ctx, job, func(v *tickView) tickWrite {
		write := tickWrite{set: v.record.decided().IsZero()}
		if write.set {
			v.record.Begins = first.UTC().Round(0)
		}
		after = v.record.decided()
		return write
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("last tick of job %q not known: %w", job, l.explain(ctx, err))
	}
	return after, nil
}

// Claim asks for the tick of job at instant. It is idempotent: a claim that
// failed can be repeated.
//
// A previous run that is still recorded as going on but whose process has died
// is recorded as interrupted. One whose process lives is an overlap.
func (l *TickLedger) Claim(ctx context.Context, job string, instant time.Time, on OnOverlap) (TickClaim, error) {
	return l.claim(ctx, job, instant, on, false)
}

// ClaimManual asks to run job outside its schedule. at is kept as the run's
// instant but decides nothing: no tick is taken by it. The verdict is claimed
// or overlap; an overlap is not recorded.
func (l *TickLedger) ClaimManual(ctx context.Context, job string, at time.Time) (TickClaim, error) {
	return l.claim(ctx, job, at, TellOverlap, true)
}

func (l *TickLedger) claim(ctx context.Context, job string, instant time.Time, on OnOverlap, manual bool) (TickClaim, error) {
	instant = instant.UTC().Round(0)
	id := l.opened()
	var claim TickClaim
	stat, err := l.update(ctx, job, func(v *tickView) tickWrite {
		rec, last := &v.record, v.record.Run
		orphan := l.orphan(last)
		switch {
		case last != nil && last.ID == id && v.alive:
			claim.Verdict = TickClaimed // before the connection was lost
			return tickWrite{}
		case rec.Finished != nil && rec.Finished.ID == id && rec.Finished.Outcome == TickSkipped:
			claim.Verdict = TickOverlap // likewise
			return tickWrite{}
		case last != nil && last.ID == id:
			// Claimed, and the session has ended since: under a new name.
			orphan = true
			l.close(id)
			id = l.opened()
		}
		mine := orphan && !manual && !last.Manual && last.Instant.Equal(instant)

		if !manual && !mine && !instant.After(rec.decided()) {
			claim = TickClaim{Verdict: TickTaken, Last: rec.decided()}
			return l.settle(v, orphan)
		}
		if last != nil && !orphan && v.alive {
			claim = TickClaim{Verdict: TickOverlap, Run: last.public(job)}
			if on == TellOverlap {
				return tickWrite{}
			}
			rec.Last = instant
			rec.skip(id, instant, TickReasonOverlap, 1)
			return tickWrite{set: true}
		}

		write := tickWrite{set: true, createMarker: id}
		claim = TickClaim{Verdict: TickClaimed}
		switch {
		case mine:
			write.deleteMarker = v.marker()
		case orphan:
			write = l.settle(v, true)
			write.createMarker = id
		case last != nil:
			rec.interrupt()
			claim.Interrupted = new(last.public(job))
		}
		rec.Run = &runNote{tickOwner: l.self, ID: id, Instant: instant, Manual: manual, State: "claimed"}
		claim.Run = rec.Run.public(job)
		if !manual && instant.After(rec.Last) { // not when a failed claim is repeated
			rec.Last = instant
		}
		return write
	})
	if err != nil || claim.Verdict != TickClaimed {
		l.close(id)
		if err != nil {
			return TickClaim{}, fmt.Errorf("tick of job %q at %s not claimed: %w", job, instant.Format(time.RFC3339), l.explain(ctx, err))
		}
		return claim, nil
	}
	claim.Run.ClaimedAt = time.UnixMilli(stat.Mtime)
	return claim, nil
}

// Finish records how a claimed run ended. It is idempotent, and must be
// repeated until it returns nil or a *TickInterruptedError: until then the next
// ticks of the job overlap with the run.
func (l *TickLedger) Finish(ctx context.Context, run TickRun, end TickEnd) error {
	interrupted := false
	_, err := l.update(ctx, run.Job, func(v *tickView) tickWrite {
		rec := &v.record
		if rec.Run != nil && rec.Run.ID == run.ID {
			l.ending(run.ID)
			write := tickWrite{set: true, deleteMarker: v.marker()}
			rec.finish(end)
			return write
		}
		// Either an earlier try has done it, or somebody has given up on us.
		recorded := rec.Finished != nil && rec.Finished.ID == run.ID && rec.Finished.Outcome != TickInterrupted
		interrupted = !recorded && (rec.Interrupted == run.ID || !l.wasEnding(run.ID))
		return tickWrite{}
	})
	if err != nil {
		return fmt.Errorf("end of the run of job %q at %s not recorded: %w", run.Job, run.Instant.Format(time.RFC3339), l.explain(ctx, err))
	}
	l.close(run.ID)
	if interrupted {
		return &TickInterruptedError{Job: run.Job, Instant: run.Instant}
	}
	return nil
}

// RecordSkip records instants of job, in ascending order, as skipped for a
// reason. It leaves out those that were decided before, and returns how many
// it recorded. Without instants it does nothing but put right what a call that
// failed has left behind.
func (l *TickLedger) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (int, error) {
	id := newGUID()
	recorded := 0
	_, err := l.update(ctx, job, func(v *tickView) tickWrite {
		rec := &v.record
		if rec.Finished != nil && rec.Finished.ID == id {
			return tickWrite{} // done before the connection was lost
		}
		recorded = 0
		orphan := l.orphan(rec.Run)
		var write tickWrite
		if orphan && slices.ContainsFunc(instants, rec.Run.Instant.Equal) && !rec.Run.Manual {
			write = tickWrite{set: true, deleteMarker: v.marker()}
			rec.skip(id, rec.Run.Instant, reason, 1)
			rec.Run = nil
			recorded = 1
		} else {
			write = l.settle(v, orphan)
		}
		for _, instant := range instants {
			if instant.After(rec.decided()) {
				rec.Last = instant.UTC().Round(0)
				rec.skip(id, rec.Last, reason, 1)
				recorded++
				write.set = true
			}
		}
		return write
	})
	if err != nil {
		return 0, fmt.Errorf("skipped tick of job %q not recorded: %w", job, l.explain(ctx, err))
	}
	return recorded, nil
}

// State returns what the ledger knows about job.
func (l *TickLedger) State(ctx context.Context, job string) (TickState, error) {
	path, err := l.path(job)
	if err != nil {
		return TickState{}, err
	}
	v, err := l.look(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return TickState{Job: job}, nil
	}
	if err != nil {
		return TickState{}, fmt.Errorf("ticks of job %q: %w", job, l.explain(ctx, err))
	}
	return v.state(job), nil
}

// --- one change -------------------------------------------------------------

// tickView is a job's node as one look shows it.
type tickView struct {
	record  tickRecord
	stat    *zk.Stat
	alive   bool // the process of record.Run lives
	version int32
}

// marker returns the id of the run whose marker stands, "" when there is none.
func (v *tickView) marker() string {
	if v.alive {
		return v.record.Run.ID
	}
	return ""
}

// tickWrite says what to write beside the record as it was changed.
type tickWrite struct {
	set                        bool // write at all
	createMarker, deleteMarker string
}

// update reads, lets plan change the record, and writes it under the version
// that was read, until that works or plan has nothing to write. It returns the
// stat that goes with the record.
func (l *TickLedger) update(ctx context.Context, job string, plan func(*tickView) tickWrite) (*zk.Stat, error) {
	path, err := l.path(job)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if err := pauseBefore(ctx, try); err != nil {
			return nil, err
		}
		v, err := l.look(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err := l.found(ctx, path, job); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		write := plan(v)
		if !write.set {
			return v.stat, nil
		}
		ops := []any{&zk.SetDataRequest{Path: path, Data: v.record.encode(), Version: v.version}}
		if write.deleteMarker != "" {
			ops = append(ops, &zk.DeleteRequest{Path: markerPath(path, write.deleteMarker), Version: -1})
		}
		if write.createMarker != "" {
			ops = append(ops, &zk.CreateRequest{
				Path: markerPath(path, write.createMarker), Data: encode(l.self), Acl: l.acl, Flags: zk.FlagEphemeral,
			})
		}
		replies, err := l.store.multi(ctx, ops...)
		switch {
		case err == nil:
			return replies[0].Stat, nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists):
			// Somebody was faster, or a marker has just gone: look again.
		case errors.Is(err, errAmbiguous), errors.Is(err, errSessionOver):
			// Perhaps executed: the next look tells.
		default:
			return nil, err
		}
	}
}

// look reads the record, then whether its run lives. A marker is made and
// removed together with a change of the record, and never comes back: if it is
// gone though the record still names it, its session has ended.
func (l *TickLedger) look(ctx context.Context, path string) (*tickView, error) {
	data, stat, err := l.store.get(ctx, path)
	if err != nil {
		return nil, err
	}
	v := &tickView{stat: stat, version: stat.Version}
	if v.record, err = decodeTick(data, stat); err != nil {
		return nil, err
	}
	if v.record.Run != nil {
		_, _, err := l.store.get(ctx, markerPath(path, v.record.Run.ID))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		v.alive = err == nil
	}
	return v, nil
}

// found creates the node of a job that was never heard of.
func (l *TickLedger) found(ctx context.Context, path, job string) error {
	if err := l.store.ensure(ctx, l.root); err != nil {
		return err
	}
	_, err := l.store.create(ctx, path, tickRecord{Format: recordFormat, Job: job}.encode(), 0)
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, errAmbiguous) || errors.Is(err, errSessionOver) {
		return nil
	}
	return err
}

// explain adds what is known of ZooKeeper to the error of a call whose context
// has ended before the answer came.
func (l *TickLedger) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", err, l.store.unavailable())
}

func (l *TickLedger) path(job string) (string, error) {
	name, err := EscapeScope(job)
	if bad, ok := errors.AsType[*RequestError](err); ok {
		return "", &RequestError{Field: "job", Reason: bad.Reason}
	}
	return l.root + "/" + name, err
}

func markerPath(path, id string) string { return path + "/run-" + id }

// pauseBefore waits a little before the third try and all later ones.
func pauseBefore(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	timer := time.NewTimer(rand.N(min(2*time.Millisecond<<min(try, 10), 200*time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// --- runs of this ledger ------------------------------------------------------

// orphan reports whether a run was claimed by this ledger in a call that then
// failed: nobody runs it.
func (l *TickLedger) orphan(run *runNote) bool {
	if run == nil || run.Ledger != l.self.Ledger {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[run.ID] == nil
}

// settle records an orphan as skipped.
func (l *TickLedger) settle(v *tickView, orphan bool) tickWrite {
	if !orphan {
		return tickWrite{}
	}
	write := tickWrite{set: true, deleteMarker: v.marker()}
	run := v.record.Run
	v.record.skip(run.ID, run.Instant, TickReasonUndecided, 1)
	v.record.Run = nil
	return write
}

func (l *TickLedger) opened() string {
	id := newGUID()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = &openTick{}
	return id
}

func (l *TickLedger) close(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

func (l *TickLedger) ending(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[id]; o != nil {
		o.ending = true
	}
}

func (l *TickLedger) wasEnding(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open[id]
	return o != nil && o.ending
}
