package emergency

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// An AuditTrail is where acts are put on record: a *opstore.AuditLog.
type AuditTrail interface {
	Append(ctx context.Context, entry opstore.AuditEntry) (opstore.AuditRecord, error)
}

// By is who does something, and why. With one of them missing it is refused, with a
// *lock.RequestError.
type By struct{ Name, Reason string }

// An Operator does what people ask for, by a command or in the console: it
// preempts holders, breaks locks, applies and clears overrides, decides, pauses and
// runs jobs. What it does is on record before it is done, and what has come of it
// after; what cannot be put on record is not done.
type Operator struct {
	client *lock.Client
	trail  AuditTrail
}

// NewOperator returns one that acts with the credentials of a client. Both have to
// be set.
func NewOperator(client *lock.Client, trail AuditTrail) (*Operator, error) {
	if client == nil || trail == nil {
		return nil, errors.New("emergency: an operator without a client or an audit trail; give both")
	}
	return &Operator{client: client, trail: trail}, nil
}

// OnRecord announces what do does, and writes down what has become of it, to which
// do may add. It returns the name of the act.
func (o *Operator) OnRecord(
	ctx context.Context, entry opstore.AuditEntry, do func(outcome *opstore.AuditEntry) error,
) (act string, err error) {
	acts, err := o.AllOnRecord(ctx, []opstore.AuditEntry{entry}, func(outcomes []*opstore.AuditEntry) error {
		return do(outcomes[0])
	})
	return acts[0], err
}

// AllOnRecord is OnRecord for what is done whole or not at all.
func (o *Operator) AllOnRecord(
	ctx context.Context, entries []opstore.AuditEntry, do func(outcomes []*opstore.AuditEntry) error,
) (acts []string, err error) {
	deeds, outcomes := make([]*deed, len(entries)), make([]*opstore.AuditEntry, len(entries))
	for i, entry := range entries {
		deeds[i] = &deed{trail: o.trail, entry: entry}
		outcomes[i] = &deeds[i].entry
		if err == nil {
			err = deeds[i].intend(ctx)
		}
	}
	if err == nil {
		err = do(outcomes)
	}
	problems := []error{err}
	for i := range deeds {
		problems = append(problems, deeds[i].tell(ctx, err))
		acts = append(acts, deeds[i].entry.Act)
	}
	return acts, errors.Join(problems...)
}

// Apply puts overrides in force, all of them or none. It returns those before, nil
// where there was none, and the names of the acts, in the same order.
func (o *Operator) Apply(
	ctx context.Context, all []override.Override,
) (was []*override.Override, acts []string, err error) {
	entries := make([]opstore.AuditEntry, len(all))
	for i, one := range all {
		entries[i] = opstore.AuditEntry{
			Action: opstore.AuditOverrideApply, Scope: one.Match.Scope, Job: one.Match.Job, By: one.By, Reason: one.Reason,
			Override: one.ID, After: map[string]string{"override": one.String(), "source": string(ZooKeeper)},
		}
	}
	acts, err = o.AllOnRecord(ctx, entries, func(outcomes []*opstore.AuditEntry) (err error) {
		was, err = o.client.Overrides().ApplyAll(ctx, all)
		for i, before := range was {
			if before != nil {
				outcomes[i].Before = map[string]string{"override": before.String()}
			}
		}
		return err
	})
	return was, acts, err
}

// Clear takes an override back, and returns it and the name of the act.
func (o *Operator) Clear(ctx context.Context, id string, by By) (was override.Override, act string, err error) {
	entry := opstore.AuditEntry{Action: opstore.AuditOverrideClear, By: by.Name, Reason: by.Reason, Override: id}
	act, err = o.OnRecord(ctx, entry, func(outcome *opstore.AuditEntry) (err error) {
		was, err = o.client.Overrides().Clear(ctx, id)
		if err == nil {
			outcome.Before = map[string]string{"override": was.String()}
			outcome.Scope, outcome.Job = was.Match.Scope, was.Match.Job
		}
		return err
	})
	return was, act, err
}

// Questions are where a decision goes: a *opstore.ApprovalBoard, or
// temporal.Approvals.
type Questions interface {
	Find(ctx context.Context, id string) (opstore.Approval, error)
	Decide(ctx context.Context, id string, d opstore.Decision) error
}

// Decide answers a question of the board in ZooKeeper, as DecideIn does.
func (o *Operator) Decide(
	ctx context.Context, id string, d opstore.Decision,
) (about opstore.Approval, act string, err error) {
	return o.DecideIn(ctx, o.client.Approvals(), id, d)
}

// DecideIn answers a question once that is on record, and returns it and the name
// of the act. The error is a *opstore.NoApprovalError when there is no such
// question; then there is nothing that would have to be on record.
func (o *Operator) DecideIn(
	ctx context.Context, questions Questions, id string, d opstore.Decision,
) (about opstore.Approval, act string, err error) {
	if about, err = questions.Find(ctx, id); err != nil {
		return about, "", err
	}
	act, err = o.OnRecord(ctx, decisionEntry(about, d), func(*opstore.AuditEntry) error {
		return questions.Decide(ctx, id, d)
	})
	if err == nil {
		about.Decision = &d
	}
	return about, act, err
}

// decisionEntry is what is on record of a decision.
func decisionEntry(a opstore.Approval, d opstore.Decision) opstore.AuditEntry {
	return opstore.AuditEntry{
		Action: opstore.AuditApprovalDecide, By: d.By, Reason: d.Reason, Approval: a.ID,
		Scope: a.Scope, Job: a.Job, Requestor: &a.Requestor, Victims: a.Holders,
		After: map[string]string{"decision": d.Word()},
	}
}

// Pause keeps a job from running until a time; the zero one: until it is resumed.
// It returns the pause that was in force, nil if none was, and the name of the act.
func (o *Operator) Pause(
	ctx context.Context, job string, until time.Time, by By,
) (was *ticks.Pause, act string, err error) {
	entry := opstore.AuditEntry{
		Action: opstore.AuditJobPause, Job: job, By: by.Name, Reason: by.Reason,
		After: map[string]string{"until": "it is resumed"},
	}
	if !until.IsZero() {
		entry.After["until"] = until.UTC().Format(time.RFC3339)
	}
	act, err = o.OnRecord(ctx, entry, func(outcome *opstore.AuditEntry) (err error) {
		was, err = o.client.TickLedger("").Pause(ctx, job, ticks.Pause{By: by.Name, Reason: by.Reason, Until: until})
		outcome.Before = pauseText(was)
		return err
	})
	return was, act, err
}

// Resume lets a paused job run again. It returns the pause that was in force, nil
// if none was, and the name of the act.
func (o *Operator) Resume(ctx context.Context, job string, by By) (was *ticks.Pause, act string, err error) {
	entry := opstore.AuditEntry{Action: opstore.AuditJobResume, Job: job, By: by.Name, Reason: by.Reason}
	act, err = o.OnRecord(ctx, entry, func(outcome *opstore.AuditEntry) (err error) {
		was, err = o.client.TickLedger("").Resume(ctx, job)
		outcome.Before = pauseText(was)
		return err
	})
	return was, act, err
}

// Rewind sets back a job whose ticks were decided by a clock that was ahead: see
// ticks.Ledger.Rewind. It returns what it has done, and the name of the act.
func (o *Operator) Rewind(
	ctx context.Context, job string, how ticks.Rewind, by By,
) (done ticks.Rewound, act string, err error) {
	entry := opstore.AuditEntry{Action: opstore.AuditJobRewind, Job: job, By: by.Name, Reason: by.Reason}
	act, err = o.OnRecord(ctx, entry, func(outcome *opstore.AuditEntry) (err error) {
		done, err = o.client.TickLedger("").Rewind(ctx, job, how)
		switch {
		case err == nil && done.From.IsZero():
			outcome.After = map[string]string{"set_back": "nothing, it was not ahead"}
		case err == nil:
			outcome.Before = map[string]string{"decided_until": done.From.UTC().Format(time.RFC3339)}
			outcome.After = map[string]string{"decided_until": done.To.UTC().Format(time.RFC3339)}
			if n := len(done.LeftOut); n > 0 {
				outcome.After["left_out_until"] = done.LeftOut[n-1].Until.UTC().Format(time.RFC3339)
			}
		}
		return err
	})
	return done, act, err
}

func pauseText(was *ticks.Pause) map[string]string {
	if was == nil {
		return nil
	}
	return map[string]string{"paused": was.By + ": " + was.Reason}
}

// ErrNotTaken says that no daemon has taken a request to run a job.
var ErrNotTaken = errors.New(
	"no daemon has taken it: probably none that has this job runs, or all of them are draining")

// Run asks the daemons to run a job now, and returns the ID of the run and the name
// of the act when one has taken it. What is not taken before ctx ends, or within
// patience, is withdrawn: the error is ErrNotTaken then.
func (o *Operator) Run(ctx context.Context, job string, patience time.Duration, by By) (run, act string, err error) {
	act, err = o.OnRecord(ctx, RunEntry(job, by), func(outcome *opstore.AuditEntry) error {
		asked, err := o.client.TickLedger("").Request(ctx, ticks.Request{Job: job, By: by.Name, Reason: by.Reason})
		if err != nil {
			return err
		}
		run = asked.ID()
		outcome.After = map[string]string{"run": run}
		waiting, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err = asked.AwaitTaken(waiting); err == nil {
			return nil
		}
		late, cancelLate := context.WithTimeout(context.WithoutCancel(ctx), recording)
		defer cancelLate()
		taken, failure := asked.Withdraw(late)
		switch {
		case failure != nil:
			return errors.Join(err, failure)
		case taken:
			return nil
		case waiting.Err() != nil:
			return ErrNotTaken
		}
		return err
	})
	return run, act, err
}

// RunEntry is what is on record of a request to run a job by hand.
func RunEntry(job string, by By) opstore.AuditEntry {
	return opstore.AuditEntry{Action: opstore.AuditJobRun, Job: job, By: by.Name, Reason: by.Reason}
}

// A deed is one act as it is put on record: what is about to be done, and what has
// come of it.
type deed struct {
	trail AuditTrail
	mu    sync.Mutex // a client whose caller has gone may still be about to do it
	entry opstore.AuditEntry
	begun bool
	told  bool
}

// intend puts on record what is about to be done, to those if any are given. An
// error says that it must not be done.
func (d *deed) intend(ctx context.Context, victims ...lock.Contender) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told {
		return context.Canceled // its caller has gone
	}
	if d.entry.By == "" {
		return &lock.RequestError{Field: "by", Reason: "is missing; write who does it, for the record"}
	}
	if d.entry.Reason == "" {
		return &lock.RequestError{Field: "reason", Reason: "is missing; write why, for those who look at the record"}
	}
	d.entry.Phase = opstore.AuditIntent
	if len(victims) > 0 {
		d.entry.Victims = nil
	}
	for _, v := range victims {
		d.entry.Victims = append(d.entry.Victims, v.Party())
	}
	r, err := d.trail.Append(ctx, d.entry)
	if err == nil {
		d.begun, d.entry.Act = true, r.Act
	}
	return err
}

// after keeps who has the lock now, for the record.
func (d *deed) after(s lock.State) {
	d.entry.After = map[string]string{"holders": cmp.Or(owners(s.Holders), "nobody")}
}

// recording is how long the outcome of an act may take to be put on record when
// the act itself has run out of time.
const recording = 5 * time.Second

// tell puts on record what has come of it; nothing if it was not begun. It is not
// begun after that.
func (d *deed) tell(ctx context.Context, failure error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = true
	if !d.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
	defer cancel()
	d.entry.Phase, d.entry.Result = opstore.AuditOutcome, opstore.AuditDone
	if failure != nil {
		d.entry.Result, d.entry.Error = opstore.AuditFailed, failure.Error()
	}
	_, err := d.trail.Append(ctx, d.entry)
	return err
}
