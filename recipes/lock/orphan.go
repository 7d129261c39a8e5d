package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// undo removes, in the background, the node of a T1, T2 or T12 that may have
// happened. What was granted by then is released if the clean end of a hold has to
// be told from an unclean one.
func (a *attempt) undo(s *zkclient.Session, guid string) {
	// planted-bug late-creates-stay: if !a.l.c.IsClosing() { return }
	s.Client().Background(func() {
		path, err := findContender(context.Background(), s, a.l.path, guid)
		switch {
		case err != nil || path == "":
		case a.req.LockDelay == 0:
			_ = s.DeleteSurely(context.Background(), path)
		default:
			now := s.Now()
			p := newPlace(a, s, guid, path, now, now)
			p.adopted = true
			p.leave()
		}
	})
}

// findContender looks for a contender by its guid after a lost reply. The session has
// caught up since, so what is not there was not executed. "": not there.
func findContender(ctx context.Context, s *zkclient.Session, lock, guid string) (string, error) {
	for {
		names, _, err := s.List(ctx, lock)
		switch {
		case err == nil:
			for _, name := range names {
				if c, ok := parseChild(name); ok && c.guid == guid {
					return lock + "/" + name, nil
				}
			}
			return "", nil
		case errors.Is(err, zkclient.ErrNoNode):
			return "", nil
		case !errors.Is(err, zkclient.ErrAmbiguous):
			return "", err
		}
	}
}
