package ticks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// claiming is one call that claims a run.
type claiming struct {
	l      *Ledger
	job    string
	note   runNote // of the run, without its owner
	sent   bool    // perhaps it has claimed already
	asked  bool    // by a request, whose id the run has
	left   string  // id of a run that it has claimed, in a session that has ended since
	failed int     // calls before this one
	claim  Claim

	definition string // see Ask
}

func (l *Ledger) newClaim(job string, note runNote) *claiming {
	if note.ID == "" {
		note.ID = znode.NewGUID()
	}
	return &claiming{l: l, job: job, note: note, failed: l.failures(job)}
}

// do runs the call. v is what is remembered of the job, if anything.
func (c *claiming) do(ctx context.Context, v *tickView, plan func(*tickView) tickWrite) (Claim, error) {
	c.l.opened(c.note.ID)
	rec, err := c.l.updateFrom(ctx, c.job, v, c.isTaken, plan)
	if err != nil {
		c.l.close(c.note.ID)
		c.l.failing(c.job)
		what := "tick of job %q at %s not claimed: %w"
		switch {
		case c.note.Manual:
			what = "manual run of job %q at %s not claimed: %w"
		case c.note.Waited:
			return Claim{}, fmt.Errorf("waiting tick of job %q not claimed: %w", c.job, c.l.explain(ctx, err))
		}
		return Claim{}, fmt.Errorf(what, c.job, c.note.Instant.Format(time.RFC3339), c.l.explain(ctx, err))
	}
	c.l.settled(c.job, c.failed)
	if c.claim.Verdict != Claimed {
		c.l.close(c.note.ID)
	} else if i := rec.run(c.note.ID); i >= 0 {
		c.claim.Run = rec.publicRun(&rec.Runs[i])
	}
	c.claim.Waiting = len(rec.Waiting)
	if c.definition != "" {
		self := c.l.self
		c.claim.Compared, c.claim.Differing = true, rec.differing(c.definition)
		c.claim.By = Definition{Fingerprint: c.definition, Owner: self.Owner, Host: self.Host, PID: self.PID}
	}
	return c.claim, nil
}

// define takes note of the definition that the caller has of the job, with what
// is written anyway; and by itself if another definition got the tick.
func (c *claiming) define(v *tickView, w tickWrite) tickWrite {
	switch rec := &v.record; {
	case c.definition == "":
	case c.claim.Verdict == Taken:
		w.set = rec.outrun(c.definition, c.l.self, c.note.Instant) || w.set
	case w.set:
		rec.defined(c.definition, c.l.self, c.note.Instant)
	}
	return w
}

// isTaken reports whether it is a tick that was decided before, and no call of
// this ledger has to do with that.
func (c *claiming) isTaken(rec *tickRecord) bool {
	if c.note.Manual || c.note.Waited || c.note.Instant.After(rec.decided()) {
		return false
	}
	for i := range rec.Runs {
		if n := &rec.Runs[i]; c.l.mine(rec, n) {
			return false
		}
	}
	if c.definition != "" && rec.outrun(c.definition, c.l.self, c.note.Instant) {
		return false // and that is to be written
	}
	c.claim = Claim{Verdict: Taken, Last: rec.decided()}
	return true
}

// done reports whether an earlier try of this call has claimed: its reply was
// lost, then.
func (c *claiming) done(v *tickView) bool {
	i := v.record.run(c.note.ID)
	if i < 0 || !c.sent || !c.l.mine(&v.record, &v.record.Runs[i]) {
		return false
	}
	if v.alive(c.note.ID) {
		c.claim.Verdict = Claimed
		return true
	}
	// The session has ended since: again, under a new name.
	c.left = c.note.ID
	c.l.close(c.left)
	if !c.asked {
		c.note.ID = znode.NewGUID()
		c.l.opened(c.note.ID)
	}
	return false
}

// tick decides about a tick of the schedule.
func (c *claiming) tick(v *tickView, ask Ask, limit int) (w tickWrite) {
	rec, instant := &v.record, c.note.Instant
	if c.done(v) {
		return w
	}
	if e := rec.ended(c.note.ID); e != nil { // an earlier call recorded it
		c.recall(rec, e)
		return w
	}
	if c.claim.Verdict == Buffered && rec.waits(instant) { // an earlier call recorded it
		return w
	}
	again := c.l.settle(v, &w, func(n *runNote) bool { return !n.Manual && !n.Waited && n.Instant.Equal(instant) })
	if !again && !instant.After(rec.decided()) {
		c.claim = Claim{Verdict: Taken, Last: rec.decided()}
		return w
	}
	if rec.leavesOut(instant) {
		c.claim = Claim{Verdict: LeftOut}
		return c.skip(v, w, ReasonEarly)
	}
	if p := rec.pausedAt(instant); p != nil {
		c.claim = Claim{Verdict: Paused, Paused: p.public()}
		return c.skip(v, w, ReasonPaused)
	}

	alive, oldest := v.living()
	free := alive < limit
	if free && len(rec.Waiting) > 0 && ask.OnOverlap != AllowOverlap && ask.OnOverlap != CancelOverlap {
		free = again && instant.Before(rec.Waiting[0])
	}
	if ask.OnOverlap == CancelOverlap {
		for _, waiting := range rec.Waiting {
			rec.skip(znode.NewGUID(), waiting, ReasonOverlap)
		}
		rec.Waiting = nil
	}
	if free {
		rec.Last = later(rec.Last, instant)
		rec.Paused = nil // if there is one, it has ended
		return c.run(v, w)
	}
	c.claim = Claim{Verdict: Overlap}
	if oldest != nil {
		c.claim.Run = rec.publicRun(oldest)
	}
	return c.overlap(v, w, ask, again)
}

// recall makes the claim what an earlier call has recorded of the tick.
func (c *claiming) recall(rec *tickRecord, e *endNote) {
	switch {
	case e.Outcome != Skipped: // claimed, and found dead by others since
		c.claim = Claim{Verdict: Taken, Last: rec.decided()}
	case e.Reason == ReasonPaused:
		c.claim.Verdict = Paused
	case e.Reason == ReasonEarly:
		c.claim.Verdict = LeftOut
	default:
		c.claim.Verdict = Overlap
	}
}

// overlap does with a tick that overlaps what the caller asks for.
func (c *claiming) overlap(v *tickView, w tickWrite, ask Ask, again bool) tickWrite {
	rec, instant := &v.record, c.note.Instant
	switch {
	case ask.OnOverlap == TellOverlap:
		return c.tell(w, again)
	case ask.OnOverlap == BufferOverlap && len(rec.Waiting) < max(1, ask.Max):
		c.buffer(v)
	case ask.OnOverlap == CancelOverlap:
		for i := range rec.Runs {
			if rec.Runs[i].Cancel.IsZero() {
				rec.Runs[i].Cancel = instant
			}
		}
		c.buffer(v)
	default:
		return c.skip(v, w, ReasonOverlap)
	}
	w.set = true
	return w
}

// tell leaves all as it is. A claim of an earlier call that failed, and whose
// reply was lost, then has to stay as well, until this call can be repeated.
func (c *claiming) tell(w tickWrite, again bool) tickWrite {
	if again {
		c.failed = 0
		return tickWrite{}
	}
	return w
}

// buffer lets the tick wait.
func (c *claiming) buffer(v *tickView) {
	rec := &v.record
	c.claim.Verdict = Buffered
	c.claim.Interrupted = v.bury()
	rec.Last = later(rec.Last, c.note.Instant)
	rec.wait(c.note.Instant)
}

// skip records that the tick does not run.
func (c *claiming) skip(v *tickView, w tickWrite, reason string) tickWrite {
	rec := &v.record
	c.claim.Interrupted = v.bury()
	rec.Last = later(rec.Last, c.note.Instant)
	rec.skip(c.note.ID, c.note.Instant, reason)
	w.set = true
	return w
}

// waiting decides about the oldest tick that waits.
func (c *claiming) waiting(v *tickView, limit int) (w tickWrite) {
	rec := &v.record
	if c.done(v) {
		return w
	}
	c.l.settle(v, &w, func(*runNote) bool { return false })
	alive, oldest := v.living()
	switch {
	case len(rec.Waiting) == 0:
		c.claim = Claim{Verdict: Taken, Last: rec.decided()}
		return w
	case rec.pausedAt(time.Now()) != nil:
		c.claim = Claim{Verdict: Paused, Paused: rec.Paused.public()}
		return w
	case alive >= limit:
		c.claim = Claim{Verdict: Overlap, Run: rec.publicRun(oldest)}
		return w
	}
	c.note.Instant = rec.Waiting[0]
	rec.Waiting = rec.Waiting[1:]
	return c.run(v, w)
}

// manual decides about a run by hand.
func (c *claiming) manual(v *tickView, limit int) (w tickWrite) {
	if c.done(v) {
		return w
	}
	c.l.settle(v, &w, func(n *runNote) bool { return n.ID == c.left })
	if alive, oldest := v.living(); alive >= limit {
		c.claim = Claim{Verdict: Overlap, Run: v.record.publicRun(oldest)}
		return w
	}
	return c.run(v, w)
}

// request decides about a run by hand that was requested, at the node path.
func (c *claiming) request(v *tickView, limit int, path string, stands bool) (w tickWrite) {
	if c.done(v) {
		return w
	}
	c.l.close(c.note.ID) // what an earlier call or session has claimed has no owner now
	again := c.l.settle(v, &w, func(n *runNote) bool { return n.ID == c.note.ID })
	c.l.opened(c.note.ID)
	if !again && !stands {
		c.claim = Claim{Verdict: Taken, Last: v.record.decided()}
		return w
	}
	if alive, oldest := v.living(); alive >= limit {
		c.claim = Claim{Verdict: Overlap, Run: v.record.publicRun(oldest)}
		return c.tell(w, again)
	}
	if !again {
		w.deleteRequest = path
	}
	return c.run(v, w)
}

// run makes the run.
func (c *claiming) run(v *tickView, w tickWrite) tickWrite {
	rec := &v.record
	c.claim = Claim{Verdict: Claimed, Interrupted: v.bury()}
	note := c.note
	note.Owner = rec.owner(c.l.self)
	rec.Runs = append(rec.Runs, note)
	w.set, c.sent = true, true
	w.createMarker = note.ID
	return w
}
