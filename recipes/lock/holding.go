package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// holding is a live holder as the first waiter sees it.
type holding struct {
	child
	path string
	rec  contenderRecord
	stat *zkclient.Stat
}

// hold names the hold of which this one is a member: companions have one name.
func (h *holding) hold() string {
	if h.rec.Hold == "" {
		return h.guid
	}
	return strconv.FormatInt(int64(h.rec.token(h.stat)), 10) + " " + h.rec.Hold
}

// mayGrow reports whether others may come to hold beside this one.
func (h *holding) mayGrow() bool { return h.rec.Mode == priority.Shared || h.rec.Hold != "" }

func aliveOf(holders []*holding) []child {
	alive := make([]child, len(holders))
	for i, h := range holders {
		alive[i] = h.child
	}
	return alive
}

// lookAt reads what the holders say, and watches them alone. It returns errAgain
// when one of them has left.
func (p *place) lookAt(ctx context.Context, g lockRecord, alive []child) ([]*holding, error) {
	holders := make([]*holding, len(alive))
	paths := make([]string, len(alive))
	for i, c := range alive {
		paths[i] = p.a.l.path + "/" + c.name
		holders[i] = &holding{child: c, path: paths[i]}
	}
	p.watchOnly(paths...)
	var looks errgroup.Group
	looks.SetLimit(16) // on one connection, one after the other: this saves the waits between
	for _, h := range holders {
		looks.Go(func() error {
			node, err := p.lookAtHolder(ctx, h.path)
			switch {
			case errors.Is(err, zkclient.ErrNoNode):
				return errAgain
			case err != nil:
				return err
			}
			h.stat = node.Stat
			h.rec, err = decodeContender(node.Data)
			return znode.InNode(err, h.path)
		})
	}
	err := looks.Wait()
	planted := slices.DeleteFunc(slices.Clone(holders), func(h *holding) bool { return !g.planted(h.child, h.stat) })
	for _, h := range planted {
		p.a.l.pass(h.name, "it is not ephemeral")
	}
	if len(planted) > 0 {
		return nil, errAgain
	}
	if !errors.As(err, new(*znode.RecordError)) || znode.IsNewer(err) {
		p.baffled = 0
		return holders, err
	}
	// A client of ours whose node was overwritten leaves the lock at once.
	now := p.s.Now()
	if p.baffled == 0 {
		p.baffled = now
	}
	if now.Sub(p.baffled) < strangeHolderFor {
		return nil, errStranger
	}
	return nil, fmt.Errorf("lock %q not acquired: the data of its holder say nothing (lockkeeper locks show; "+
		"lockkeeper locks break): %w", p.a.l.scope, err)
}

// strangeHolderFor is how long a request waits for a holder whose data are no
// request: nothing says when its time is over.
const strangeHolderFor = 10 * time.Second
