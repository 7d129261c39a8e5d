package emergency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A note is how far a duty has come, for who has the next turn.
type note struct {
	Key      string            `json:"key"` // of the Active that it is about
	Override override.Override `json:"override"`
	Source   Source            `json:"source"`
	PostedBy string            `json:"posted_by,omitempty"`

	Told   bool         `json:"told,omitempty"`   // that it is in force is on record
	Begun  bool         `json:"begun,omitempty"`  // holders are being preempted
	Tokens []lock.Token `json:"tokens,omitempty"` // of the holders that are meant by that
	Result string       `json:"result,omitempty"` // of what was done, "" before
	Ended  time.Time    `json:"ended,omitzero"`   // that it has ended is on record
}

func newNote(a Active) note {
	return note{Key: a.key(), Override: a.Override, Source: a.Source, PostedBy: a.PostedBy}
}

// is reports whether a note is about this very override.
func (n note) is(a Active) bool { return n.Key == a.key() }

// key tells an override from one with the same ID that says something else, or
// was said at another time.
func (a Active) key() string {
	text, _ := json.Marshal(a.Override) // never fails
	hash := sha256.Sum256(fmt.Appendf(text, " %s %s %d", a.Source, a.PostedBy, a.PostedAt.UnixMilli()))
	return hex.EncodeToString(hash[:8])
}

// expired is the entry about the end of the time of an override.
func (n note) expired() opstore.AuditEntry {
	a := Active{Override: n.Override, Source: n.Source, PostedBy: n.PostedBy}
	entry := a.entry(opstore.AuditOverrideExpire, opstore.AuditOutcome)
	entry.Before, entry.After = entry.After, nil
	return entry
}

// over is when a note is of no use any more.
func (n note) over() time.Time {
	const late = time.Minute // how late others may hear of the end
	if n.Ended.IsZero() {
		return n.Override.Until.Add(late)
	}
	return n.Ended.Add(late)
}

func readNote(ctx context.Context, errand *errand) (n note, err error) {
	text, err := errand.read(ctx)
	if err != nil || text == nil {
		return note{}, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return note{}, fmt.Errorf(
			"the note about an override cannot be read; delete its node, emergency/notes/<id> under the root: %w", err)
	}
	return n, nil
}

func (w *watch) read(ctx context.Context) (err error) {
	w.note, err = readNote(ctx, w.errand)
	return err
}

// write keeps the note, also when ctx has ended.
func (w *watch) write(ctx context.Context) error { return w.note.write(ctx, w.turn) }

func (n note) write(ctx context.Context, turn *errandTurn) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return turn.write(ctx, text)
}

// How often notes of overrides that are over are looked for.
const sweepEvery = time.Minute

// sweep removes notes that are of no use any more. Overrides that ended while
// no daemon was watching are put on record.
func (e *Executor) sweep(ctx context.Context) {
	stays := map[string]string{} // why, as it was told last
	for {
		select {
		case <-time.After(sweepEvery):
		case <-ctx.Done():
			return
		}
		names, err := errands(ctx, e.cfg.Client.Client)
		if err != nil {
			e.log.Debug("notes about overrides are not read", "error", err)
		}
		for _, name := range names {
			err := e.sweepOne(ctx, name)
			switch {
			case err == nil:
				delete(stays, name)
			case ctx.Err() == nil && stays[name] != err.Error():
				stays[name] = err.Error()
				e.log.Warn("a note about an override that is over stays", "override", name, "error", err)
			}
		}
		maps.DeleteFunc(stays, func(name, _ string) bool { return !slices.Contains(names, name) })
	}
}

func (e *Executor) sweepOne(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	errand, err := newErrand(e.cfg.Client.Client, name)
	if err != nil {
		return err
	}
	n, err := readNote(ctx, errand)
	if err != nil || n.Key == "" || e.now().Before(n.over()) {
		return err
	}
	turn, err := errand.take(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = turn.release(ctx) }() // else it ends with the session
	n, err = readNote(ctx, errand)           // another one may have been here
	if err != nil || n.Key == "" || e.now().Before(n.over()) {
		return err
	}
	if n.Ended.IsZero() {
		if err := e.audit(ctx, n.expired()); err != nil {
			return err
		}
		n.Ended = n.Override.Until
		if err := n.write(ctx, turn); err != nil {
			return err
		}
	}
	return turn.forget(ctx)
}
