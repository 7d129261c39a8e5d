package main

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// activities are what a migration consists of. Each runs under the lock of the
// workflow, and gives its token to the store.
type activities struct {
	store *store
	tell  *narrator
	batch time.Duration // how long a batch takes
}

// token is that of the lock that the activity runs under.
func token(ctx context.Context) (lockguard.Token, error) {
	hold, ok := lockguard.FromContext(ctx)
	if !ok {
		return 0, errors.New("not under a lock")
	}
	return hold.Token(), nil
}

// Freeze stops the writes.
func (a *activities) Freeze(ctx context.Context) error {
	token, err := token(ctx)
	if err != nil {
		return err
	}
	a.tell.say("migration", "freezes the orders, under token %s", token)
	return a.store.freeze(token, true)
}

// Thaw lets orders be written again.
func (a *activities) Thaw(ctx context.Context) error {
	token, err := token(ctx)
	if err != nil {
		return err
	}
	a.tell.say("migration", "lets orders be written again")
	return a.store.freeze(token, false)
}

// Copy copies one batch, which takes a while: it stops when its context ends.
func (a *activities) Copy(ctx context.Context, batch int) error {
	token, err := token(ctx)
	if err != nil {
		return err
	}
	a.tell.say("migration", "copies batch %d of %d", batch, batches)
	takes := a.batch
	if first := a.tell.reach("copy", batch); first && batch == interrupted {
		takes = time.Minute // the repair comes before, however slow the machine is
	}
	done := time.NewTimer(takes)
	defer done.Stop()
	select {
	case <-ctx.Done():
		a.tell.say("migration", "! stops in the middle of batch %d: %v", batch, context.Cause(ctx))
		return context.Cause(ctx)
	case <-done.C:
		return a.store.copy(token)
	}
}

// Switch makes the new shard the one.
func (a *activities) Switch(ctx context.Context) error {
	token, err := token(ctx)
	if err != nil {
		return err
	}
	a.tell.say("migration", "switches to the new shard")
	return a.store.move(token)
}

// Discard forgets the batches that were copied.
func (a *activities) Discard(ctx context.Context) error {
	token, err := token(ctx)
	if err != nil {
		return err
	}
	n, err := a.store.discard(token)
	if err != nil {
		return err
	}
	a.tell.say("migration", "discards %d batches, still under the lock", n)
	return nil
}
