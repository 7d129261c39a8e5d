package emergency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Why a duty ends.
var (
	errExpired  = errors.New("the time of the override is over")
	errCleared  = errors.New("the override was taken back")
	errTurnLost = errors.New("the turn was lost with the session")
	errChanged  = errors.New("the override has changed")
)

// A duty is what is to be done for one override, in this process if it has the
// turn.
type duty struct {
	e   *Executor
	id  string
	ctx context.Context // ends with one of the causes above, or with the executor
	end func(now time.Time)

	mu      sync.Mutex
	active  Active
	changed chan struct{} // closed when active is replaced
}

func newDuty(ctx context.Context, e *Executor, a Active) *duty {
	d := &duty{e: e, id: a.ID, active: a, changed: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	d.ctx = ctx
	d.end = func(now time.Time) {
		if a, _ := d.look(); now.Before(a.Until) {
			cancel(errCleared)
		}
		cancel(errExpired)
	}
	return d
}

func (d *duty) look() (Active, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.active, d.changed
}

// update gets the current state of the override.
func (d *duty) update(a Active) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active.same(a) && d.active.Since.Equal(a.Since) {
		return
	}
	d.active = a
	close(d.changed)
	d.changed = make(chan struct{})
}

// run waits for the turn, and does what there is to do, until the override ends.
func (d *duty) run() {
	pause := again
	for d.ctx.Err() == nil {
		began := time.Now()
		_, changed := d.look()
		err := d.attempt()
		if d.ctx.Err() != nil {
			break
		}
		if time.Since(began) > longAgain {
			pause = again
		}
		if err != nil {
			d.e.log.Error("an override is not carried out; it is tried again",
				"override", d.id, "again_in", pause, "error", err)
		}
		wait(d.ctx, changed, pause)
		pause = min(2*pause, longAgain)
	}
}

// longAgain is how long it takes at most until something that has failed is
// tried again. Each attempt is put on record.
const longAgain = 30 * time.Second

// attempt does what there is to do in one turn.
func (d *duty) attempt() error {
	errand, err := newErrand(d.e.cfg.Client.Client, d.id)
	if err != nil {
		return err
	}
	turn, err := errand.take(d.ctx)
	if err != nil {
		return err
	}
	w := &watch{duty: d, errand: errand, turn: turn}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), auditTimeout)
		defer cancel()
		_ = turn.release(ctx) // it goes on in the background, or ends with the session
	}()
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-turn.lost():
			cancel(errTurnLost)
		case <-ctx.Done():
		}
	}()
	if err := w.read(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := w.keep(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return w.close(ctx)
}

// A watch is a turn of a duty.
type watch struct {
	*duty
	errand *errand
	turn   *errandTurn
	note   note
}

// settle is how long another process may take to hear that an override has been
// taken back.
const settle = 10 * time.Second

// keep does what the override wants as it is now, until it has changed or ctx
// ends.
func (w *watch) keep(ctx context.Context) error {
	a, changed := w.look()
	if w.note.is(a) && !w.note.Ended.IsZero() && !a.Since.After(w.note.Ended) {
		// Another one has ended this already: we shall hear of it.
		if rest := w.note.Ended.Add(settle).Sub(w.e.now()); rest > 0 {
			wait(ctx, changed, rest)
			return nil
		}
	}
	if !w.note.is(a) || !w.note.Ended.IsZero() {
		w.note = newNote(a)
	}
	if a.Source == File && !w.note.Told { // else who has posted it has told
		if err := w.e.audit(ctx, a.entry(opstore.AuditOverrideApply, opstore.AuditOutcome)); err != nil {
			return err
		}
		w.note.Told = true
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	switch a.Kind {
	case override.Hold:
		return w.hold(ctx, a)
	case override.PreemptNow:
		if w.note.Result == "" {
			return w.preempt(ctx, a, changed)
		}
	case override.Boost, override.Cap, override.Freeze, override.Pause, override.Extend, override.Bypass:
	}
	wait(ctx, changed, 0)
	return nil
}

// wait waits for a change; no longer than most, if that is not 0.
func wait(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		over = time.After(most)
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
	}
}

// hold takes the lock, and keeps it while the override wants it.
func (w *watch) hold(ctx context.Context, a Active) error {
	err := w.e.cfg.Guard.Override(ctx, a.Override, func(work context.Context) error {
		held, ok := lockguard.FromContext(work)
		if !ok {
			return errors.New("the guard gave no hold")
		}
		defer w.e.log.Warn("a lock is not held for an operator any more", "override", a.ID, "scope", a.Match.Scope)
		w.e.log.Warn("a lock is held for an operator", append(a.words(), "token", int64(held.Token()))...)
		for is := a; ; {
			now, changed := w.look()
			if now.Kind != a.Kind || now.Match.Scope != a.Match.Scope {
				return errChanged
			}
			if !now.Until.Equal(is.Until) {
				if err := held.Extend(work, now.Until.Sub(w.e.now())); err != nil {
					return fmt.Errorf("the hold was not made longer: %w", err)
				}
			}
			is = now
			wait(work, changed, 0)
			if work.Err() != nil {
				return nil
			}
			if now, _ := w.look(); !now.same(is) && now.Source == File {
				w.tellAgain(work, now)
			}
		}
	})
	if ctx.Err() != nil || errors.Is(err, errChanged) {
		return nil //nolint:nilerr // that was meant to end it
	}
	if err == nil {
		err = errors.New("the lock was taken from it")
	}
	return err
}

// tellAgain writes down that the file says something else by now of what goes on.
func (w *watch) tellAgain(ctx context.Context, a Active) {
	if err := w.e.audit(ctx, a.entry(opstore.AuditOverrideApply, opstore.AuditOutcome)); err != nil {
		w.e.log.Error("an override was not put on record", "override", a.ID, "error", err)
		return
	}
	result := w.note.Result
	w.note = newNote(a)
	w.note.Told, w.note.Result = true, result
	if err := w.write(ctx); err != nil {
		w.e.log.Error("a note about an override was not written", "override", a.ID, "error", err)
	}
}

// preempt preempts the holders and takes the lock, once for all processes.
func (w *watch) preempt(ctx context.Context, a Active, changed <-chan struct{}) error {
	state, err := w.e.cfg.Client.Lock(ctx, a.Match.Scope)
	if err != nil {
		return err
	}
	meant := slices.DeleteFunc(slices.Clone(state.Holders), func(c lock.Contender) bool {
		return a.Token != 0 && int64(c.Token) != a.Token || w.note.Begun && !slices.Contains(w.note.Tokens, c.Token)
	})
	switch {
	case len(meant) == 0 && w.note.Begun:
		return w.outcome(ctx, a, gone)
	case len(meant) == 0:
		return w.outcome(ctx, a, "nobody to ask")
	case a.Token != 0 && len(meant) < len(state.Holders):
		return w.refuse(ctx, a, fmt.Errorf("others share the lock with the holder of token %d, "+
			"and would be preempted as well; use locks break --token", a.Token))
	}
	if !w.note.Begun { // who goes on after us, means the same holders
		w.note.Begun = true
		for _, c := range meant {
			w.note.Tokens = append(w.note.Tokens, c.Token)
		}
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-changed:
			cancel(errChanged)
		case <-asking.Done():
		}
	}()
	taken := false
	err = w.e.cfg.Guard.Override(asking, a.Override, func(context.Context) error {
		taken = true
		return nil
	})
	switch {
	case taken:
		w.e.log.Warn("the holders of a lock no longer hold it, preempted for an operator",
			append(a.words(), "holders", owners(meant))...)
		w.note.Result = gone
		return w.write(ctx)
	case asking.Err() != nil:
		return nil
	}
	return err
}

// gone is the result when the holders that were meant have the lock no more.
const gone = "they have gone"

// outcome writes down what has become of it where there was nothing to do.
func (w *watch) outcome(ctx context.Context, a Active, how string) error {
	entry := a.entry(opstore.AuditOverrideAct, opstore.AuditOutcome)
	entry.After["outcome"] = how
	if err := w.e.audit(ctx, entry); err != nil {
		return err
	}
	w.note.Result = how
	return w.write(ctx)
}

// refuse writes down that it will not be done.
func (w *watch) refuse(ctx context.Context, a Active, err error) error {
	w.e.log.Error("an override is not carried out", "override", a.ID, "error", err)
	if err := w.e.audit(ctx, failed(a.entry(opstore.AuditOverrideAct, opstore.AuditOutcome), err)); err != nil {
		return err
	}
	w.note.Result = "refused"
	return w.write(ctx)
}

// close writes down how the override has ended, if it has.
func (w *watch) close(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errExpired) && !errors.Is(cause, errCleared) {
		return nil // another one goes on
	}
	a, _ := w.look()
	if w.note.is(a) && !w.note.Ended.IsZero() {
		return nil
	}
	if !w.note.is(a) {
		w.note = newNote(a)
	}
	if err := w.tellEnd(ctx, a, cause); err != nil {
		return err
	}
	w.note.Ended = w.e.now()
	return w.write(ctx)
}

func (w *watch) tellEnd(ctx context.Context, a Active, cause error) error {
	switch {
	case errors.Is(cause, errExpired):
		return w.e.audit(ctx, w.note.expired())
	case a.Source == File:
		entry := a.entry(opstore.AuditOverrideClear, opstore.AuditOutcome)
		entry.By, entry.Reason = string(File), "it is not in the file any more"
		entry.Before, entry.After = entry.After, nil
		return w.e.audit(ctx, entry)
	}
	return nil // who has taken it back has told
}
