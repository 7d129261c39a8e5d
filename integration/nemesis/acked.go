package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// strikeAcked strikes the follower that serves the client soon after it has answered a request that went through the
// leader. What the client can still reach is settled just before.
func (n *Nemesis) strikeAcked(ctx context.Context, a *attack) error {
	serving, err := n.awaitAnswer(ctx, a)
	if err != nil {
		return err
	}
	a.servers, a.Servers = []*zkserver.Server{serving.server}, []int{serving.server.ID()}
	rng := a.step.rand()
	late := time.Duration(0) // mostly: then no later ping of the leader has told it of that request
	if rng.IntN(4) == 0 {
		late = time.Duration(rng.Int64N(int64(2 * n.options.Tick)))
	}
	wait(ctx, late)
	errs := []error{n.confine(a, serving)}
	where := "the client can go elsewhere"
	if a.step.Reach == Alone {
		where = "the client reaches no other server"
	}
	style := ""
	switch a.Kind {
	case FollowerKillAcked:
		errs = append(errs, serving.server.Kill())
	case FollowerPauseAcked:
		errs = append(errs, serving.server.Pause())
		style = fmt.Sprintf(", for %s", a.step.For)
	default:
		errs = append(errs, n.part(a))
		style = ", " + a.Detail
	}
	a.Detail = fmt.Sprintf("%s after an answer, %s%s", late.Round(time.Millisecond), where, style)
	return errors.Join(errs...)
}

// awaitAnswer keeps the client from the leader, and returns the route to the follower that answers its next
// request that goes through the leader. The answer is on its way to the client.
func (n *Nemesis) awaitAnswer(ctx context.Context, a *attack) (*route, error) {
	patience := 4 * n.options.Session
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("no follower answered client %s for %s", a.Clients[0], patience))
	defer cancel()
	leader, err := n.ensemble.Leader(ctx)
	if err != nil {
		return nil, err
	}
	answered := make(chan *route, len(a.routes))
	watching, enough := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer enough()
	for _, r := range a.routes {
		if r.server == leader {
			if err := r.net.Cut(); err != nil {
				return nil, err
			}
			continue
		}
		rule := r.wire.On(zktest.Op(zktest.Sync, zktest.Create, zktest.Multi, zktest.SetData, zktest.Delete)).DelayReply(0)
		watchers.Go(func() {
			defer rule.Remove()
			select {
			case <-rule.Reached():
				answered <- r
			case <-watching.Done():
			}
		})
	}
	select {
	case r := <-answered:
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// confine cuts the client off from all servers but the one that serves it, or gives it the leader back.
func (n *Nemesis) confine(a *attack, serving *route) error {
	breaks := []Kind{LinkCut, LinkBlackhole}[a.step.rand().IntN(2)]
	var errs []error
	for _, r := range a.routes {
		switch {
		case r == serving:
		case a.step.Reach == Alone:
			_, err := r.spoil(breaks, a.step.rand())
			errs = append(errs, err)
		default:
			errs = append(errs, r.net.Pass())
		}
	}
	return errors.Join(errs...)
}
