package recipes

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An Errand is done for all processes of the cluster by one of them at a time.
// Whoever has the turn may keep a note of how far it has come, so that the next
// one goes on from there instead of doing it twice.
//
// Its turns stand in <root>/emergency/turns, in directories that ZooKeeper
// removes when nobody waits; its note in <root>/emergency/notes, until somebody
// forgets it.
type Errand struct {
	c    *Client
	name string
	m    *Mutex
	note string // chroot included
}

// MaxErrandNote bounds a note, in bytes.
const MaxErrandNote = 64 << 10

// Errand returns the errand with a name: a word that can be a node's name. It
// returns a *RequestError for one that can not.
func (c *Client) Errand(name string) (*Errand, error) {
	base := c.Config().Root + "/emergency"
	m, err := c.Mutex(base+"/turns/"+name, MutexOptions{})
	if err != nil || path.Base(name) != name {
		return nil, errors.Join(err, &zkclient.RequestError{Field: "errand", Reason: fmt.Sprintf("%q cannot be the name of a node; write a word", name)})
	}
	return &Errand{c: c, name: name, m: m, note: c.Config().Chroot + base + "/notes/" + name}, nil
}

// Errands returns the names of all errands that have a note.
func (c *Client) Errands(ctx context.Context) ([]string, error) {
	names, err := c.Children(ctx, c.Root()+"/emergency/notes")
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// Note returns the note, nil if there is none.
func (e *Errand) Note(ctx context.Context) ([]byte, error) {
	data, _, err := e.c.Get(ctx, e.note)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	return data, err
}

// Take waits for the turn, which has to be given back. Errors are those of
// Mutex.Acquire.
func (e *Errand) Take(ctx context.Context) (*ErrandTurn, error) {
	// The directories of turns come and go; what they are in stays.
	if err := e.c.Ensure(ctx, path.Dir(e.note)); err != nil {
		return nil, err
	}
	g, err := e.m.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &ErrandTurn{e: e, g: g}, nil
}

// An ErrandTurn is the right to do an errand. It lasts until it is given back,
// or is lost with the session.
type ErrandTurn struct {
	e *Errand
	g *ClassicGrant
}

// Lost is closed when the turn is lost: somebody else may have it then.
func (t *ErrandTurn) Lost() <-chan struct{} { return t.g.Lost() }

// Release gives the turn back. Errors are those of ClassicGrant.Release.
func (t *ErrandTurn) Release(ctx context.Context) error { return t.g.Release(ctx) }

// Write keeps a note in place of the one before. Only who has the turn can: when
// it is lost, the error is a *GoneError and the note is as it was.
func (t *ErrandTurn) Write(ctx context.Context, note []byte) error {
	if len(note) > MaxErrandNote {
		return &zkclient.RequestError{Field: "note", Reason: fmt.Sprintf("takes %d bytes; the limit is %d", len(note), MaxErrandNote)}
	}
	set := &zkclient.SetDataRequest{Path: t.e.note, Data: note, Version: -1}
	create := &zkclient.CreateRequest{Path: t.e.note, Data: note, Acl: t.e.c.ACL()}
	return t.whileMine(ctx, func(ctx context.Context, s *zkclient.Session, mine *zkclient.CheckVersionRequest) error {
		_, failed, err := s.Multi(ctx, mine, set)
		if failed == 1 && errors.Is(err, zkclient.ErrNoNode) {
			if _, failed, err = s.Multi(ctx, mine, create); failed == 1 && errors.Is(err, zkclient.ErrNodeExists) {
				return zkclient.ErrAmbiguous // an attempt whose reply was lost: again
			}
		}
		return err
	})
}

// Forget deletes the note, with the same errors as Write. One that is not there
// is fine.
func (t *ErrandTurn) Forget(ctx context.Context) error {
	return t.whileMine(ctx, func(ctx context.Context, s *zkclient.Session, mine *zkclient.CheckVersionRequest) error {
		_, failed, err := s.Multi(ctx, mine, &zkclient.DeleteRequest{Path: t.e.note, Version: -1})
		if failed == 1 && errors.Is(err, zkclient.ErrNoNode) {
			return nil
		}
		return err
	})
}

// whileMine runs an idempotent transaction that begins with a check of the
// turn's node.
func (t *ErrandTurn) whileMine(ctx context.Context, do func(context.Context, *zkclient.Session, *zkclient.CheckVersionRequest) error) error {
	mine := &zkclient.CheckVersionRequest{Path: t.g.h.path, Version: -1}
	_, err := zkclient.Promptly(ctx, t.e.c.Client, func() (struct{}, error) {
		return struct{}{}, t.e.c.Reading(ctx, func(s *zkclient.Session) error { return do(ctx, s, mine) })
	}, nil)
	if errors.Is(err, zkclient.ErrNoNode) {
		return &GoneError{Path: t.g.Path()}
	}
	return err
}
