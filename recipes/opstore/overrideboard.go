package opstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
func (b *OverrideBoard) ApplyAll(ctx context.Context, all []override.Override) (was []*override.Override, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	what := fmt.Sprintf("override %s not applied", words.Join(all, ", ", func(o override.Override) string { return strconv.Quote(o.ID) }))
	if err := b.c.CheckOperator(ctx, what); err != nil {
		return nil, err
	}
	write := znode.NewGUID()
	err = b.update(ctx, func(rec *boardRecord, now time.Time) (bool, error) {
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

// Watch calls see with what is posted, as List returns it, and again soon after
// each change, until ctx ends, whose cause it returns, or the client is closed.
// What cannot be trusted, or read, is passed as an error without overrides,
// once until that changes. While ZooKeeper does not answer see is not called.
func (b *OverrideBoard) Watch(ctx context.Context, see func([]PostedOverride, error)) error {
	w := boardWatch{b: b, see: see}
	return b.c.ReadingFor(ctx, false, func(s *zkclient.Session) error { return w.on(ctx, s) })
}

// A boardWatch tells each state of the board once.
type boardWatch struct {
	b    *OverrideBoard
	see  func([]PostedOverride, error)
	told string
}

func (w *boardWatch) on(ctx context.Context, s *zkclient.Session) error {
	bell := zkclient.NewBell()
	forget := func() { s.Unwatch(w.b.path(), bell.Watcher()) }
	defer forget()
	for {
		// What is reported depends on what the client knows of who the operators are.
		refusal := w.b.c.Introduce(ctx, s)
		if refusal != nil && !zkclient.IsRefusal(refusal) {
			return refusal
		}
		sight, err := zkclient.Promptly(ctx, w.b.c, func() (boardSight, error) { return w.b.sight(ctx, s, bell.Watcher()) }, func(boardSight, error) { forget() })
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			return err
		case ctx.Err() != nil: // which may come together with an answer
			return context.Cause(ctx)
		}
		if err == nil && len(sight.rec.Posted) > 0 { // else there is no end to watch for
			if err := w.b.c.PrimeTime(ctx, s); err != nil {
				return err
			}
		}
		if err == nil {
			err = sight.doubt
		}
		if err == nil || errors.As(refusal, new(*zkclient.ListsError)) {
			err = cmp.Or(refusal, err)
		}
		w.tell(sight, err)
		most := zkclient.SafetyPoll
		if refusal != nil {
			most = zkclient.RefusalPoll
		}
		if err := bell.WaitFor(ctx, s, most); err != nil {
			return err
		}
	}
}

func (w *boardWatch) tell(sight boardSight, err error) {
	if err != nil {
		if news := "error " + err.Error(); w.told != news {
			w.told = news
			w.see(nil, fmt.Errorf("overrides: %w", err))
		}
		return
	}
	if news := fmt.Sprintf("node %+v", sight.id); w.told != news {
		w.told = news
		w.see(sight.rec.posted(), nil)
	}
}

func (b *OverrideBoard) path() string { return b.c.Root() + "/overrides" }

func (b *OverrideBoard) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", err, b.c.Unavailable())
}

// --- the node --------------------------------------------------------------------

// boardSight is the node as seen.
type boardSight struct {
	id    nodeVersion
	rec   boardRecord
	doubt error // *UntrustedError, or why it cannot be read

	root    []zkclient.ACLEntry // of the root
	rootErr error               // why that is not to be trusted
}

// nodeVersion tells one state of a node from all others. The zero value: there
// is none.
type nodeVersion struct {
	created, written int64
	data, acl        int32
}

func versionOf(stat *zkclient.Stat) nodeVersion {
	return nodeVersion{stat.Czxid, stat.Mzxid, stat.Version, stat.Aversion}
}

// sight reads the node and who may write it, of one moment. It registers w, if
// given, for what happens to it.
func (b *OverrideBoard) sight(ctx context.Context, s *zkclient.Session, w *zkclient.Watcher) (sight boardSight, err error) {
	for {
		// The root first: what is put there from then on was put there by one of those.
		sight = boardSight{}
		if sight.root, sight.rootErr = b.c.VouchRoot(ctx, s); isConnection(sight.rootErr) {
			return sight, sight.rootErr
		}
		data, stat, err := b.read(ctx, s, w)
		if errors.Is(err, zkclient.ErrNoNode) {
			return sight, nil
		} else if err != nil {
			return sight, err
		}
		if errors.Is(sight.rootErr, zkclient.ErrNoNode) {
			continue // made meanwhile
		}
		sight.id, sight.doubt = versionOf(stat), sight.rootErr
		if sight.doubt == nil {
			sight.doubt = b.c.VouchNode(ctx, s, sight.root, b.path())
		}
		if isConnection(sight.doubt) {
			return sight, sight.doubt
		}
		now, err := s.Stat(ctx, b.path())
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			continue
		case err != nil:
			return sight, err
		case now.Czxid != stat.Czxid || now.Aversion != stat.Aversion:
			continue
		}
		if sight.rec, err = decodeBoard(data); err != nil && sight.doubt == nil {
			sight.doubt = fmt.Errorf("the list cannot be read: %w", znode.InNode(err, b.path()))
		}
		return sight, nil
	}
}

// isConnection reports whether err says nothing about the data.
func isConnection(err error) bool {
	return err != nil && !zkclient.IsUntrusted(err) && !errors.Is(err, zkclient.ErrNoNode) && !errors.Is(err, zkclient.ErrNoAuth)
}

func (b *OverrideBoard) read(ctx context.Context, s *zkclient.Session, w *zkclient.Watcher) ([]byte, *zkclient.Stat, error) {
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
func (b *OverrideBoard) update(ctx context.Context, change func(rec *boardRecord, now time.Time) (write bool, err error)) error {
	_, err := zkclient.Promptly(ctx, b.c, func() (struct{}, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (struct{}, error) { return struct{}{}, b.updateOn(ctx, s, change) })
	}, nil)
	return err
}

func (b *OverrideBoard) updateOn(ctx context.Context, s *zkclient.Session, change func(*boardRecord, time.Time) (bool, error)) error {
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
		if err := b.write(ctx, s, sight, data); !errors.Is(err, zkclient.ErrBadVersion) && !errors.Is(err, zkclient.ErrNodeExists) && !errors.Is(err, zkclient.ErrNoNode) {
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

// --- the record ---------------------------------------------------------------------

// boardRecord is the data of the node.
type boardRecord struct {
	Format int          `json:"format"`
	Posted []boardEntry `json:"overrides"`
}

type boardEntry struct {
	Override override.Override `json:"override"`
	By       string            `json:"posted_by"`
	At       time.Time         `json:"posted_at"`
	Write    string            `json:"write"` // the call that posted it
}

func decodeBoard(data []byte) (boardRecord, error) {
	rec := boardRecord{Format: znode.RecordFormat}
	if len(bytes.TrimSpace(data)) == 0 {
		return rec, nil
	}
	rec.Format = 0 // it has to say
	if err := znode.Decode(data, &rec, &rec.Format); err != nil {
		return boardRecord{}, err
	}
	return rec, nil
}

func (r *boardRecord) encode() ([]byte, error) {
	slices.SortFunc(r.Posted, func(a, b boardEntry) int { return strings.Compare(a.Override.ID, b.Override.ID) })
	r.Format = znode.RecordFormat
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxOverridesBytes {
		return nil, fmt.Errorf("all overrides together would take %d bytes, more than %d; clear some (lockkeeper override ls)", len(data), maxOverridesBytes)
	}
	return data, err
}

func (r *boardRecord) find(id string) int {
	return slices.IndexFunc(r.Posted, func(e boardEntry) bool { return e.Override.ID == id })
}

// drop removes what has ended.
func (r *boardRecord) drop(now time.Time) {
	r.Posted = slices.DeleteFunc(r.Posted, func(e boardEntry) bool { return !now.Before(e.Override.Until) })
}

func (r *boardRecord) ids() (ids []string) {
	for _, e := range r.Posted {
		ids = append(ids, e.Override.ID)
	}
	return ids
}

func (r *boardRecord) posted() []PostedOverride {
	posted := make([]PostedOverride, 0, len(r.Posted))
	for _, e := range r.Posted {
		posted = append(posted, PostedOverride{Override: e.Override, PostedBy: e.By, PostedAt: e.At})
	}
	return posted
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

// CheckOverrides returns a *RecordError for data of the board that cannot be read.
func CheckOverrides(data []byte) error {
	_, err := decodeBoard(data)
	return err
}
