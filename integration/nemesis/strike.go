package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// strike does what the kind says. What it has done when it fails is healed all the same.
func (n *Nemesis) strike(ctx context.Context, a *attack) error {
	switch a.Kind {
	case ServerKill, LeaderKill, MajorityKill, AllRestart:
		return zkserver.Each(a.servers, (*zkserver.Server).Kill)
	case ServerPause, LeaderPause:
		a.Detail = fmt.Sprintf("for %s", a.step.For)
		return zkserver.Each(a.servers, (*zkserver.Server).Pause)
	case LeaderPartition, FollowerPartition, LeaderMute, LeaderTrap, PeersSlow:
		return n.part(a)
	case FollowerKillAcked, FollowerPauseAcked, FollowerPartitionAcked:
		return n.strikeAcked(ctx, a)
	case ServerClock:
		a.Detail = fmt.Sprintf("%+v", a.step.Offset)
		return zkserver.Each(a.servers, func(s *zkserver.Server) error { return s.StepClock(a.step.Offset) })
	case DiskFull:
		a.Detail = a.servers[0].Disk()
		return zkserver.Each(a.servers, (*zkserver.Server).FillDisk)
	case LinkCut, LinkReset, LinkRefuse, LinkHalfOpen, LinkBlackhole, LinkDeaf, LinkMute, LinkStall,
		LinkSlow, LeaderCutOff:
		return n.spoil(a)
	case ReplyDrop, RequestDrop:
		a.droppings = dropSome(a.routes, a.Kind == ReplyDrop, a.step.rand())
		return nil
	case SessionExpire, SessionsExpire:
		return n.expire(ctx, a.Sessions)
	case ClientKill, ClientPause, ClientClock:
		return n.process(a)
	default:
		return fmt.Errorf("no kind of fault is called %q", string(a.Kind))
	}
}

// heal undoes what strike did, and for faults of servers returns when all servers serve.
func (n *Nemesis) heal(ctx context.Context, a *attack) error {
	switch a.Kind {
	case ServerKill, LeaderKill, MajorityKill, AllRestart:
		return errors.Join(n.ensemble.Restart(ctx), n.ensemble.WaitCommitting(ctx))
	case ServerPause, LeaderPause:
		return errors.Join(zkserver.Each(a.servers, (*zkserver.Server).Resume), n.ensemble.WaitCommitting(ctx))
	case FollowerKillAcked:
		return errors.Join(pass(a.routes), n.ensemble.Restart(ctx), n.ensemble.WaitCommitting(ctx))
	case FollowerPauseAcked:
		return errors.Join(pass(a.routes), zkserver.Each(a.servers, (*zkserver.Server).Resume),
			n.ensemble.WaitCommitting(ctx))
	case LeaderPartition, FollowerPartition, LeaderMute, LeaderTrap, PeersSlow, FollowerPartitionAcked:
		var errs []error
		for _, l := range n.ensemble.PeerLinks(nil) {
			errs = append(errs, l.Pass())
		}
		errs = append(errs, pass(a.routes), n.ensemble.WaitCommitting(ctx))
		return errors.Join(errs...)
	case ServerClock:
		return zkserver.Each(a.servers, func(s *zkserver.Server) error { return s.StepClock(0) })
	case DiskFull:
		// In this order: a server that has gone on in memory would write behind the gap that the full disk has left
		// in its log.
		return errors.Join(
			zkserver.Each(a.servers, (*zkserver.Server).Kill),
			zkserver.Each(a.servers, (*zkserver.Server).FreeDisk),
			n.ensemble.Restart(ctx),
			n.ensemble.WaitCommitting(ctx))
	case LinkCut, LinkReset, LinkRefuse, LinkHalfOpen, LinkBlackhole, LinkDeaf, LinkMute, LinkStall,
		LinkSlow, LeaderCutOff:
		return pass(a.routes)
	case ReplyDrop, RequestDrop:
		if a.droppings != nil {
			a.Detail = fmt.Sprintf("%d lost", a.droppings.end())
		}
	case ClientPause, ClientClock:
		n.restore(a)
	case ClientKill, SessionExpire, SessionsExpire:
	}
	return nil
}

// part breaks the network between servers.
func (n *Nemesis) part(a *attack) error {
	var errs []error
	rng := a.step.rand()
	style := rng.IntN(4)
	for _, l := range n.ensemble.PeerLinks(nil) {
		concerned := l.From == a.servers[0] || l.To == a.servers[0]
		switch {
		case a.Kind == PeersSlow:
			most := time.Duration(10+rng.IntN(90)) * time.Millisecond
			errs = append(errs, l.Jitter(most/4, most))
		case !concerned:
		case a.Kind == LeaderMute:
			errs = append(errs, l.Blackhole(l.Outward(a.servers[0])))
		case style == 0:
			a.Detail = "cut"
			errs = append(errs, l.Cut())
		case style == 1:
			a.Detail = "stalled"
			errs = append(errs, l.Stall())
		default:
			a.Detail = "black hole"
			errs = append(errs, l.Blackhole())
		}
	}
	if a.Kind == LeaderTrap {
		for _, r := range a.routes {
			_, err := r.spoil(a.Kind, rng)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// spoil breaks the network of a client.
func (n *Nemesis) spoil(a *attack) error {
	var errs []error
	for _, r := range a.routes {
		// The same for all of them.
		what, err := r.spoil(a.Kind, a.step.rand())
		a.Detail = what
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func pass(routes []*route) error {
	var errs []error
	for _, r := range routes {
		errs = append(errs, r.net.Pass())
	}
	return errors.Join(errs...)
}

// expire closes sessions as an administrator would, at a server that serves.
func (n *Nemesis) expire(ctx context.Context, sessions []int64) error {
	ctx, cancel := context.WithTimeout(ctx, aimTimeout)
	defer cancel()
	server, err := n.ensemble.Leader(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range sessions {
		errs = append(errs, zkserver.CloseSession(ctx, server.Addr(), id, zkserver.Password(id)))
	}
	return errors.Join(errs...)
}

// process does something to a client's process.
func (n *Nemesis) process(a *attack) error {
	client := a.Clients[0]
	var err error
	switch p := n.options.Processes; a.Kind {
	case ClientKill:
		err = p.Kill(client)
	case ClientPause:
		a.Detail = fmt.Sprintf("for %s", a.step.For)
		err = p.Pause(client)
	default:
		a.Detail = fmt.Sprintf("%+v", a.step.Offset)
		err = p.StepClock(client, a.step.Offset)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		n.giveUp(a.Kind, err.Error())
	}
	return err
}

// restore lets a client's process run on, by the right clock. It may be gone: then there is nothing to restore.
func (n *Nemesis) restore(a *attack) {
	client, err := a.Clients[0], error(nil)
	if a.Kind == ClientPause {
		err = n.options.Processes.Resume(client)
	} else if n.refused(a.Kind) == "" {
		err = n.options.Processes.StepClock(client, 0)
	}
	if err != nil {
		a.Detail += fmt.Sprintf("; restored: %v", err)
	}
}
