package emergency

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// FromBoard is the Board of a client.
func FromBoard(board *opstore.OverrideBoard) Board { return clientBoard{board} }

type clientBoard struct{ board *opstore.OverrideBoard }

func (b clientBoard) Watch(ctx context.Context, see func([]Active, error)) error {
	return b.board.Watch(ctx, func(posted []opstore.PostedOverride, err error) {
		all := make([]Active, len(posted))
		for i, o := range posted {
			all[i] = Active{Override: o.Override, PostedBy: o.PostedBy, PostedAt: o.PostedAt}
		}
		see(all, err)
	})
}
