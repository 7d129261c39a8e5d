package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An obedience makes a command heed the overrides in ZooKeeper, and puts on
// record what it does to others. It needs no approval: who has started
// the command is there.
type obedience struct {
	client  *lock.Client
	auditor *audit.Auditor
	desk    *emergency.Desk
	running sync.WaitGroup
	stop    context.CancelFunc
}

func (p *program) obey(ctx context.Context, client *lock.Client) (*obedience, error) {
	trail, err := client.AuditLog(0)
	if err != nil {
		return nil, err
	}
	o := &obedience{client: client}
	var auditErr, deskErr error
	o.auditor, auditErr = audit.New(audit.Config{Logger: p.quiet(), Trail: trail})
	o.desk, deskErr = emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(client.Overrides()), Logger: p.quiet(), Now: client.Now,
	})
	if err := errors.Join(auditErr, deskErr); err != nil {
		return nil, err
	}
	ctx, o.stop = context.WithCancel(ctx)
	o.running.Go(func() { o.desk.Run(ctx) })
	return o, nil
}

func (o *obedience) options() []lockguard.Option {
	return []lockguard.Option{
		lockguard.WithAuditor(o.auditor), lockguard.WithObserver(o.auditor.Observe), lockguard.WithOverrides(o.desk),
	}
}

// ready waits until it is known which overrides are in force, and takes that
// time off the acquire timeouts. It returns why ZooKeeper does not answer: no
// lock can be had then; or what keeps this client from knowing whether there is a freeze.
// Nothing is run without knowing that.
func (o *obedience) ready(ctx context.Context, requirements []lockguard.Requirement) error {
	start, limit := time.Now(), firstLook
	for _, r := range requirements {
		if t := r.AcquireTimeout; t != nil && *t > 0 {
			limit = min(limit, *t)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	known := o.desk.Ready(waiting) == nil || ctx.Err() != nil
	if err := o.unknown(waiting); known && err != nil {
		return &codeError{exitConfig, fmt.Sprintf("nothing is run, as it is not known whether an operator has frozen it: %s",
			listFlags.Replace(err.Error()))}
	}
	var silent *lock.UnavailableError
	if !known {
		silent, _ = errors.AsType[*lock.UnavailableError](o.client.Ready(waiting))
	}
	for i, r := range requirements {
		if t := r.AcquireTimeout; t != nil && *t > 0 {
			requirements[i].AcquireTimeout = new(max(time.Millisecond, *t-time.Since(start)))
			if silent != nil && limit == *t {
				return &lock.NotAcquiredError{Scope: r.Scope, Waited: *t, Err: silent}
			}
		}
	}
	switch {
	case silent != nil:
		return silent
	case !known:
		return &codeError{
			exitNotAcquired,
			fmt.Sprintf("nothing is run: ZooKeeper has not said within %s whether an operator has frozen it; try again", limit),
		}
	}
	return nil
}

// unknown is why which overrides are in force cannot be known: others than operators
// could have written them, or this client may not read them, or cannot. Without
// credentials there are no operators, and no overrides; and a client that must make
// no nodes gets that error when it asks for the lock.
func (o *obedience) unknown(ctx context.Context) error {
	err := o.desk.Status().Err
	open := o.client.Identity() == "" && errors.As(err, new(*lock.UntrustedError))
	if err != nil && !open && o.client.CheckIdentities(ctx) == nil {
		return err
	}
	return nil
}

// end is called when no lock is held or wanted any more.
func (o *obedience) end() {
	o.stop()
	o.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = o.auditor.Close(ctx) // what is lost was logged
}
