package classic

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// revokeMessage is what Curator's Revoker writes into the node of a holder that
// it asks to release.
var revokeMessage = []byte("__REVOKE__")

// Revoke asks the participant of a Mutex or RWMutex whose node is at path, see
// Participants, to release: by Curator's protocol, so it reaches a Curator
// mutex that was made revocable as well. A Go holder gets the notice
// PreemptRequested; a participant that waits gets it once it holds. The holder
// decides.
//
// It replaces the data of the node. It returns a *GoneError when the node is not
// there, and a *RequestError for a path that cannot be a participant's.
func Revoke(ctx context.Context, c *zkclient.Client, path string) error {
	node, err := absolute(c, path)
	if err != nil {
		return err
	}
	if _, ok := parseTicket(node, lockMarks); !ok {
		return &zkclient.RequestError{
			Field: "path", Reason: path + " is not the node of a participant; take one from Participants",
		}
	}
	_, err = zkclient.Promptly(ctx, c, func() (struct{}, error) {
		return struct{}{}, c.Reading(ctx, func(s *zkclient.Session) error {
			_, err := s.Set(ctx, node, revokeMessage, -1)
			return err
		})
	}, nil)
	if errors.Is(err, zkclient.ErrNoNode) {
		return &GoneError{Path: path}
	}
	return err
}
