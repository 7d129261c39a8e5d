package emergency

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An errand is done for all processes of the cluster by one of them at a time.
// The one that has the turn may keep a note of how far it has come, so that the next
// one goes on from there instead of doing it twice.
//
// Its turns stand in <root>/emergency/turns, in directories that ZooKeeper
// removes when they have no waiters; its note in <root>/emergency/notes, until it
// is removed.
type errand struct {
	c    *zkclient.Client
	name string
	m    *classic.Mutex
	note string // chroot included
}

// maxErrandNote bounds a note, in bytes.
const maxErrandNote = 64 << 10

// newErrand returns the errand with a name: a word that can be a node's name. It
// returns a *RequestError for one that can not.
func newErrand(c *zkclient.Client, name string) (*errand, error) {
	base := c.Config().Root + "/emergency"
	m, err := classic.NewMutex(c, base+"/turns/"+name, classic.MutexOptions{})
	if err != nil || path.Base(name) != name {
		return nil, errors.Join(err,
			&zkclient.RequestError{Field: "errand", Reason: fmt.Sprintf("%q cannot be the name of a node; write a word", name)})
	}
	return &errand{c: c, name: name, m: m, note: c.Config().Chroot + base + "/notes/" + name}, nil
}

// errands returns the names of all errands that have a note.
func errands(ctx context.Context, c *zkclient.Client) ([]string, error) {
	names, err := c.Children(ctx, c.Root()+"/emergency/notes")
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// read returns the note, nil if there is none.
func (e *errand) read(ctx context.Context) ([]byte, error) {
	data, _, err := e.c.Get(ctx, e.note)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	return data, err
}

// take waits for the turn, which has to be given back. Errors are those of
// classic.Mutex.Acquire.
func (e *errand) take(ctx context.Context) (*errandTurn, error) {
	// The directories of turns come and go; what they are in stays.
	if err := e.c.Ensure(ctx, path.Dir(e.note)); err != nil {
		return nil, err
	}
	g, err := e.m.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &errandTurn{e: e, g: g}, nil
}

// An errandTurn is the right to do an errand. It lasts until it is given back,
// or is lost with the session.
type errandTurn struct {
	e *errand
	g *classic.Grant
}

// lost is closed when the turn is lost: another process may have it then.
func (t *errandTurn) lost() <-chan struct{} { return t.g.Lost() }

// release gives the turn back. Errors are those of classic.Grant.Release.
func (t *errandTurn) release(ctx context.Context) error { return t.g.Release(ctx) }

// write keeps a note in place of the one before. Only who has the turn can: when
// it is lost, the error is a *GoneError and the note is as it was.
func (t *errandTurn) write(ctx context.Context, note []byte) error {
	if len(note) > maxErrandNote {
		return &zkclient.RequestError{Field: "note", Reason: fmt.Sprintf("takes %d bytes; the limit is %d",
			len(note), maxErrandNote)}
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

// forget deletes the note, with the same errors as write. One that is not there
// is fine.
func (t *errandTurn) forget(ctx context.Context) error {
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
func (t *errandTurn) whileMine(
	ctx context.Context, do func(context.Context, *zkclient.Session, *zkclient.CheckVersionRequest) error,
) error {
	mine := &zkclient.CheckVersionRequest{Path: t.e.c.Config().Chroot + t.g.Path(), Version: -1}
	_, err := zkclient.Promptly(ctx, t.e.c, func() (struct{}, error) {
		return struct{}{}, t.e.c.Reading(ctx, func(s *zkclient.Session) error { return do(ctx, s, mine) })
	}, nil)
	if errors.Is(err, zkclient.ErrNoNode) {
		return &classic.GoneError{Path: t.g.Path()}
	}
	return err
}
