package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

const scope = "cluster/orders"

// batch is a job that has something to put right when it is interrupted.
var batch = lockguard.Requirement{
	Scope: scope, Owner: "batch", Message: "nightly accounts",
	Terms: priority.Terms{Priority: 20, CleanupTimeout: 30 * time.Second},
}

// payments is more important and polite: it preempts batch, and does not take
// the lock from it. It has patience for half a second; then a person decides.
var payments = lockguard.Requirement{
	Scope: scope, Owner: "payments", Message: "customers wait",
	Terms: priority.Terms{Priority: 80, WaitingTimeout: new(500 * time.Millisecond)},
}

// An ending is what became of it all.
type ending struct {
	gaveWay, lost error // what the two runs of batch have ended with
	records       []opstore.AuditRecord
	report        opstore.AuditReport
}

// A story has a cast: two daemons, with batch and payments, and an operator.
type story struct {
	*narrator
	site     site
	one, two *daemon
	ana      *operator
	alerts   <-chan string // wake ana up

	fail    context.CancelCauseFunc // ends what goes on
	working sync.WaitGroup
}

// play plays the story, and shows the audit trail.
func play(ctx context.Context, s site, out io.Writer) (end ending, err error) {
	_, _ = fmt.Fprintf(out, "\n  Batch and payments need the lock %s. Ana is the operator, bob is not.\n\n", scope)
	t := &story{narrator: newNarrator(out), site: s}
	if t.ana, err = newOperator("ana", s.ana, s.file); err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, t.ana.leave(ctx)) }()
	if end, err = t.happen(ctx); err != nil {
		return end, err
	}
	if end.records, _, err = t.ana.trail.Read(ctx, opstore.AuditQuery{}); err != nil {
		return end, err
	}
	if end.report, err = t.ana.trail.Verify(ctx); err != nil {
		return end, err
	}
	printTrail(out, end.records, t.ana.client.Now().Add(-time.Since(t.began)))
	printReport(out, end.report)
	return end, nil
}

// happen returns when the daemons have ended, and all is on record.
func (t *story) happen(ctx context.Context) (end ending, err error) {
	var log *slog.Logger
	log, t.alerts = newPager()
	if t.one, err = startDaemon(ctx, t.site, log, t.observe); err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, t.one.close(ctx)) }()
	if t.two, err = startDaemon(ctx, t.site, log, t.observe); err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, t.two.close(ctx)) }()

	ctx, t.fail = context.WithCancelCause(ctx)
	defer func() {
		t.fail(nil)
		t.working.Wait()
	}()
	if end.gaveWay, err = t.override(ctx); err != nil {
		return end, err
	}
	end.lost, err = t.approval(ctx)
	return end, err
}

// override is how ana takes the lock for herself. It returns what batch has ended
// with.
func (t *story) override(ctx context.Context) (gaveWay, err error) {
	first := t.start(ctx, t.one, batch, untilToldToGo, putBack)
	if err := t.await(ctx, "batch", lockguard.Acquired{}); err != nil {
		return nil, err
	}
	t.say("ana", "writes into overrides.yaml: hold %s, for an hour (%s)", scope, incident)
	if err := t.ana.hold(ctx, scope, "repair by hand"); err != nil {
		return nil, err
	}
	if err := t.await(ctx, "ana", lockguard.Acquired{}); err != nil {
		return nil, err
	}
	return result(ctx, first)
}

// approval is how payments gets the lock from a batch whose cleanup hangs on a
// disk that does not answer. It returns what that has ended with.
func (t *story) approval(ctx context.Context) (lost, err error) {
	disk := make(chan struct{})           // closed when it answers again
	hang := func(context.Context) error { // it ignores its context
		select {
		case <-disk:
			return errors.New("the disk did not answer")
		case <-ctx.Done(): // the story is over
			return context.Cause(ctx)
		}
	}
	second := t.start(ctx, t.one, batch, untilToldToGo, hang)
	if err := t.await(ctx, "batch", lock.Queued{}); err != nil {
		return nil, err
	}
	t.say("ana", "has repaired the orders, and takes the override out of the file")
	if err := t.ana.clear(); err != nil {
		return nil, err
	}
	if err := t.await(ctx, "batch", lockguard.Acquired{}); err != nil {
		return nil, err
	}
	third := t.start(ctx, t.two, payments, t.bookPayments)
	if err := t.decide(ctx); err != nil {
		return nil, err
	}
	if failure, err := result(ctx, third); failure != nil || err != nil {
		return nil, errors.Join(failure, err)
	}
	close(disk)
	return result(ctx, second)
}

// decide is what ana does when she is woken up.
func (t *story) decide(ctx context.Context) error {
	select {
	case alert := <-t.alerts:
		what, _, _ := strings.Cut(alert, ":")
		t.say("ana", "is woken up: %s", what)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	all, _, err := t.ana.client.Approvals().List(ctx)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("there are %d questions on the board, not one", len(all))
	}
	asked := all[0]

	if err := t.stranger(ctx, asked); err != nil {
		return err
	}
	t.say("ana", "approves %s, as %s", asked.ID, t.ana.client.Identity())
	return t.ana.force(ctx, asked, "payments are stuck")
}

// stranger is what becomes of a person who tries the same without being an
// operator.
func (t *story) stranger(ctx context.Context, asked opstore.Approval) (err error) {
	bob, err := newOperator("bob", t.site.bob, t.site.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeIn(ctx, bob.client)) }()
	err = bob.force(ctx, asked, "it is urgent")
	if !errors.As(err, new(*lock.AccessError)) {
		return fmt.Errorf("bob is no operator, and was not refused: %w", err)
	}
	t.say("bob", "cannot approve it: he is no operator, and ZooKeeper refuses him")
	return nil
}

// start runs work under a lock, as a scheduler would.
func (t *story) start(
	ctx context.Context, d *daemon, r lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook,
) <-chan error {
	ended := make(chan error, 1)
	t.working.Go(func() {
		began := false
		err := d.guard.Do(ctx, r, func(ctx context.Context) error {
			began = true
			return work(ctx)
		}, hooks...)
		if !began { // then nothing that the story waits for comes
			t.fail(err)
		}
		ended <- err
	})
	return ended
}

// result is what work has ended with.
func result(ctx context.Context, ended <-chan error) (what, err error) {
	select {
	case what = <-ended:
		return what, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// untilToldToGo is work that would take all night.
func untilToldToGo(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// putBack is the cleanup of batch.
func putBack(ctx context.Context) error { return pause(ctx, 300*time.Millisecond) }

// bookPayments is what payments does.
func (t *story) bookPayments(ctx context.Context) error {
	err := pause(ctx, 100*time.Millisecond)
	if err == nil {
		t.say("payments", "has booked all payments")
	}
	return err
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
