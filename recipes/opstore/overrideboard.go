package opstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An OverrideBoard is where operators post their overrides, for all users of
// the root.
//
//	<root>/overrides   persistent: the list, as JSON; operators may write it, all others of the root read it
//
// One node, so that a write either counts whole or not at all, and all clients
// see the same. Only an operator can write it: a client with credentials that
// is one of Config.Operators, if there are any; others get an *IdentityError.
// Readers trust it only if no other client could have written it, nor put it
// there: in an open deployment, where all clients may do all, they get an
// *UntrustedError.
type OverrideBoard struct{ c *zkclient.Client }

// NewOverrideBoard returns the board of a client's root.
func NewOverrideBoard(c *zkclient.Client) *OverrideBoard { return &OverrideBoard{c: c} }

// What a board holds at most.
const (
	MaxOverrides      = 100
	maxOverridesBytes = 512 << 10
)

// A PostedOverride is an override on the board.
type PostedOverride struct {
	Override override.Override
	PostedBy string    // Identity of the client that posted it, as that one says
	PostedAt time.Time // by the servers' clock
}

// Apply posts an override, in place of the one of the same ID if there is one,
// which it returns. What has ended is removed on that occasion. It returns
// *override.FieldError values, joined, for one that can never be: how long it may
// last is for the caller to check.
func (b *OverrideBoard) Apply(ctx context.Context, o override.Override) (was *override.Override, err error) {
	all, err := b.ApplyAll(ctx, []override.Override{o})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ApplyAll is Apply for several overrides with different IDs: all of them are
// posted, or none. It returns those before in the same order, nil where there was
// none.
func (b *OverrideBoard) ApplyAll(ctx context.Context, all []override.Override) ([]*override.Override, error) {
	if len(all) == 0 {
		return nil, nil
	}
	what := fmt.Sprintf("override %s not applied", words.Join(all, ", ", func(o override.Override) string {
		return strconv.Quote(o.ID)
	}))
	if err := b.c.CheckOperator(ctx, what); err != nil {
		return nil, err
	}
	write := znode.NewGUID()
	var was []*override.Override // update may still set it when ctx has ended
	err := b.update(ctx, func(rec *boardRecord, now time.Time) (bool, error) {
		if i := rec.find(all[0].ID); i >= 0 && rec.Posted[i].Write == write {
			return false, nil // before the connection was lost
		}
		was = make([]*override.Override, len(all))
		for i, o := range all {
			const decades = 24 * 365 * 100 * time.Hour
			if err := o.Validate(override.Limits{Now: now, MaxDuration: decades, AllowBypass: true}); err != nil {
				return false, err
			}
			e := boardEntry{Write: write, By: b.c.Identity(), At: now, Override: o}
			if j := rec.find(o.ID); j < 0 {
				rec.Posted = append(rec.Posted, e)
			} else {
				was[i] = new(rec.Posted[j].Override)
				rec.Posted[j] = e
			}
		}
		if n := len(rec.Posted); n > MaxOverrides {
			return false, fmt.Errorf("%d overrides are in force already; clear some (lockkeeper override ls)", MaxOverrides)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, b.explain(ctx, err))
	}
	return was, nil
}

// Clear takes an override back and returns it. It returns a *NoOverrideError if
// there is none of that ID, or if it has ended.
func (b *OverrideBoard) Clear(ctx context.Context, id string) (override.Override, error) {
	var was *override.Override
	if err := b.c.CheckOperator(ctx, fmt.Sprintf("override %q not cleared", id)); err != nil {
		return override.Override{}, err
	}
	err := b.update(ctx, func(rec *boardRecord, _ time.Time) (bool, error) {
		i := rec.find(id)
		switch {
		case i >= 0:
			was = new(rec.Posted[i].Override)
			rec.Posted = slices.Delete(rec.Posted, i, i+1)
			return true, nil
		case was != nil:
			return false, nil // before the connection was lost
		}
		return false, &NoOverrideError{ID: id, Posted: rec.ids()}
	})
	if _, none := errors.AsType[*NoOverrideError](err); none {
		return override.Override{}, err
	} else if err != nil {
		return override.Override{}, fmt.Errorf("override %q not cleared: %w", id, b.explain(ctx, err))
	}
	return *was, nil
}

// List returns what is posted, in the order of the IDs. What has ended may
// still be among it. With an *UntrustedError it returns the list all the same:
// another client than an operator's may have written it, and no process acts on
// it.
func (b *OverrideBoard) List(ctx context.Context) ([]PostedOverride, error) {
	sight, err := zkclient.Promptly(ctx, b.c, func() (boardSight, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (boardSight, error) { return b.sight(ctx, s, nil) })
	}, nil)
	if err == nil {
		err = sight.doubt
	}
	if err != nil {
		err = fmt.Errorf("overrides: %w", b.explain(ctx, err))
	}
	return sight.rec.posted(), err
}

func (b *OverrideBoard) path() string { return b.c.Root() + "/overrides" }

func (b *OverrideBoard) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", err, b.c.Unavailable())
}

func (b *OverrideBoard) read(
	ctx context.Context, s *zkclient.Session, w *zkclient.Watcher,
) ([]byte, *zkclient.Stat, error) {
	if w == nil {
		return s.Get(ctx, b.path())
	}
	data, stat, err := s.Look(ctx, b.path(), w)
	if errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrNoAuth) {
		// Only LookFor watches a node that is not there, or that may not be read.
		there, _, lookErr := s.LookFor(ctx, b.path(), w)
		switch {
		case lookErr != nil:
			return nil, nil, lookErr
		case there && errors.Is(err, zkclient.ErrNoNode):
			return s.Look(ctx, b.path(), w)
		}
	}
	return data, stat, err
}

// GrantsEmergency says why an override does not grant emergency priority for a
// scope. The error is that of a look that could not be had.
func (b *OverrideBoard) GrantsEmergency(ctx context.Context, scope, id string) (why, err error) {
	sight, err := zkclient.Promptly(ctx, b.c, func() (boardSight, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (boardSight, error) {
			if err := b.c.PrimeTime(ctx, s); err != nil {
				return boardSight{}, err
			}
			return b.sight(ctx, s, nil)
		})
	}, nil)
	if err != nil || sight.doubt != nil {
		return sight.doubt, err
	}
	i := sight.rec.find(id)
	if i < 0 {
		return errors.New("there is none of that name on the board"), nil
	}
	switch o := sight.rec.Posted[i].Override; {
	case !b.c.Now().Before(o.Until):
		return fmt.Errorf("it has ended at %s", o.Until.UTC().Format(time.RFC3339)), nil
	case !o.GrantsEmergency():
		return fmt.Errorf("it is one of the kind %s, which grants no emergency priority", o.Kind), nil
	case !(override.Match{Scope: o.Match.Scope}).Fits(override.Subject{Scope: scope}, 0):
		return fmt.Errorf("it is for %s", o.Match.Scope), nil
	}
	return nil, nil
}

// update changes the list under the version that was read, until change has
// nothing to write or the write has succeeded.
func (b *OverrideBoard) update(
	ctx context.Context, change func(rec *boardRecord, now time.Time) (write bool, err error),
) error {
	_, err := zkclient.Promptly(ctx, b.c, func() (struct{}, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (struct{}, error) {
			return struct{}{}, b.updateOn(ctx, s, change)
		})
	}, nil)
	return err
}

func (b *OverrideBoard) updateOn(
	ctx context.Context, s *zkclient.Session, change func(*boardRecord, time.Time) (bool, error),
) error {
	if err := s.Ensure(ctx, b.c.Root()); err != nil {
		return err
	}
	if err := b.c.PrimeTime(ctx, s); err != nil {
		return err
	}
	for {
		sight, err := b.sight(ctx, s, nil)
		switch {
		case err != nil:
			return err
		case sight.doubt != nil:
			return sight.doubt
		}
		rec, now := sight.rec, b.c.Now().Truncate(time.Millisecond)
		rec.drop(now)
		write, err := change(&rec, now)
		if err != nil || !write {
			return err
		}
		data, err := rec.encode()
		if err != nil {
			return err
		}
		if err := b.write(ctx, s, sight, data); !errors.Is(err, zkclient.ErrBadVersion) &&
			!errors.Is(err, zkclient.ErrNodeExists) && !errors.Is(err, zkclient.ErrNoNode) {
			return err
		}
	}
}

// write replaces what was seen. The list of those who may write goes with the
// configuration of the last writer.
func (b *OverrideBoard) write(ctx context.Context, s *zkclient.Session, seen boardSight, data []byte) error {
	if seen.rootErr != nil { // and there is no node yet
		return seen.rootErr
	}
	acl := b.c.OperatorACL(seen.root)
	if seen.id == (nodeVersion{}) {
		_, err := s.CreateNamed(ctx, b.path(), data, 0, acl)
		return err
	}
	has, stat, err := s.GetACL(ctx, b.path())
	if err != nil {
		return err
	}
	if !sameACL(has, acl) && stat.Aversion == seen.id.acl {
		// One who is an operator by the configuration alone cannot change it, nor write.
		if err := s.SetACL(ctx, b.path(), acl, stat.Aversion); err != nil && !errors.Is(err, zkclient.ErrNoAuth) {
			return err
		}
	}
	_, err = s.Set(ctx, b.path(), data, seen.id.data)
	return err
}

func sameACL(a, b []zkclient.ACLEntry) bool {
	in := func(b []zkclient.ACLEntry) func(zkclient.ACLEntry) bool {
		return func(e zkclient.ACLEntry) bool { return !slices.Contains(b, e) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// NoOverrideError is returned by OverrideBoard.Clear for an ID that no override
// has.
type NoOverrideError struct {
	ID     string
	Posted []string // the IDs that there are
}

func (e *NoOverrideError) Error() string {
	there := "there are none"
	if len(e.Posted) > 0 {
		there = "there are " + strings.Join(e.Posted, ", ")
	}
	return fmt.Sprintf("override %q not cleared: there is none of that name, or it has ended; %s", e.ID, there)
}
