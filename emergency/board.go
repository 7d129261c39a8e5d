package emergency

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// FromBoard is the Board of a client.
func FromBoard(board *recipes.OverrideBoard) Board { return clientBoard{board} }

type clientBoard struct{ board *recipes.OverrideBoard }

func (b clientBoard) Watch(ctx context.Context, see func([]Active, error)) error {
	return b.board.Watch(ctx, func(posted []recipes.PostedOverride, err error) {
		all := make([]Active, len(posted))
		for i, o := range posted {
			all[i] = Active{Override: o.Override, PostedBy: o.PostedBy, PostedAt: o.PostedAt}
		}
		see(all, err)
	})
}
