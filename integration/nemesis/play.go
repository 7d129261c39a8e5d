package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

const (
	healTimeout = 5 * time.Minute // on a machine that is busy with other things
	aimTimeout  = 20 * time.Second
)

// Run plays drawn faults until ctx ends, heals them, and returns when all servers serve. The end of ctx is no
// error, nor is a fault that could not be done, which Fault.Err tells: an error is what could not be healed.
func (n *Nemesis) Run(ctx context.Context) error {
	var mu sync.Mutex
	var errs []error
	var lanes sync.WaitGroup
	pool := n.Available()
	for lane := range n.options.Lanes {
		planner := newPlanner(n.options, uint64(lane)+1, pool)
		lanes.Go(func() {
			for ctx.Err() == nil {
				if _, err := n.play(ctx, planner.next()); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	lanes.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	return errors.Join(append(errs, n.Heal(ctx))...)
}

// Play plays the steps one after the other and heals each. It stops at one whose kind is not available, which
// cannot be done or not be healed, and when ctx ends.
func (n *Nemesis) Play(ctx context.Context, steps ...Step) error {
	for _, step := range steps {
		if step.Kind.trait().aim == atNothing {
			return fmt.Errorf("nemesis: no kind of fault is called %q", string(step.Kind))
		}
		if why := n.refused(step.Kind); why != "" {
			return fmt.Errorf("nemesis: %s cannot be played: %s", step.Kind, why)
		}
		fault, err := n.play(ctx, n.complete(step))
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if fault.Err != "" {
			return fmt.Errorf("nemesis: %s", fault)
		}
	}
	return nil
}

func (n *Nemesis) complete(step Step) Step {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.planner.complete(step, false)
}

// attack is a fault under way: whom it is aimed at, and what must be undone.
type attack struct {
	Fault
	step      Step
	servers   []*zkserver.Server
	routes    []*route // of the client, that are concerned
	droppings *droppings
}

// play does one fault from its pause to its healing. Its error is what could not be healed.
func (n *Nemesis) play(ctx context.Context, step Step) (Fault, error) {
	if n.refused(step.Kind) != "" || !wait(ctx, step.After) {
		return Fault{}, nil
	}
	a := &attack{step: step, Fault: Fault{Kind: step.Kind}}
	giveBack := n.claims.take(ctx.Done(), n.choose(a))
	if giveBack == nil {
		return Fault{}, nil
	}
	defer giveBack()
	failed := n.aim(ctx, a)
	a.Began = n.options.Now()
	a.Fault = n.record.began(a.Fault)
	if failed == nil {
		if failed = n.strike(ctx, a); failed == nil {
			wait(ctx, step.For)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	unhealed := n.heal(ctx, a)
	if err := errors.Join(failed, unhealed); err != nil {
		a.Err = err.Error()
	}
	a.Ended = n.options.Now()
	n.record.ended(a.Fault)
	if unhealed != nil {
		return a.Fault, fmt.Errorf("nemesis: %s", a.Fault)
	}
	return a.Fault, nil
}

// choose picks the clients, and returns the names of all that no other attack may touch
// meanwhile.
func (n *Nemesis) choose(a *attack) (names []string) {
	switch a.Kind.trait().aim {
	case atServer, atLeader, atFollower, atMajority, atServers, atLeaderOrOne:
		return []string{"servers"}
	case atClient, atLink, atSession:
		a.Clients = []string{a.step.Client}
	case atServing:
		a.Clients = []string{a.step.Client}
		names = append(names, "servers")
	case atLeaderLink:
		a.Clients = []string{a.step.Client}
		if a.Kind == LeaderTrap {
			names = append(names, "servers")
		}
	case atClients, atSessions:
		rng := a.step.rand()
		for _, i := range rng.Perm(len(n.options.Clients))[:2+rng.IntN(len(n.options.Clients)-1)] {
			a.Clients = append(a.Clients, n.options.Clients[i])
		}
	case atNothing:
	}
	for _, c := range a.Clients {
		names = append(names, "client "+c)
	}
	return names
}

// aim finds the servers and sessions that are concerned at this moment.
func (n *Nemesis) aim(ctx context.Context, a *attack) error {
	ctx, cancel := context.WithTimeout(ctx, aimTimeout)
	defer cancel()
	all := n.ensemble.Servers()
	which := all[(max(a.step.Server, 1)-1)%len(all)]
	var err error
	switch a.Kind.trait().aim {
	case atServer:
		a.servers = []*zkserver.Server{which}
	case atServers:
		a.servers = all
	case atMajority:
		a.servers = slices.DeleteFunc(all, func(s *zkserver.Server) bool { return s == which })
	case atLeader, atLeaderLink, atFollower, atLeaderOrOne:
		leader := which
		if a.Kind != ServerClock || a.step.Server == 0 {
			if leader, err = n.ensemble.Leader(ctx); err != nil {
				return err
			}
		}
		a.servers = []*zkserver.Server{leader}
		if a.Kind.trait().aim == atFollower {
			a.servers = []*zkserver.Server{all[leader.ID()%len(all)]}
			if which != leader {
				a.servers[0] = which
			}
		}
	case atLink:
		if a.step.Server > 0 {
			a.servers = []*zkserver.Server{which}
		}
	case atSession, atSessions:
		for _, client := range a.Clients {
			id := session(n.routes[client])
			if id == 0 {
				return fmt.Errorf("client %s has no session", client)
			}
			a.Sessions = append(a.Sessions, id)
		}
	case atNothing, atClient, atClients, atServing:
	}
	for _, s := range a.servers {
		a.Servers = append(a.Servers, s.ID())
	}
	n.lay(a)
	return nil
}

// lay finds the routes that are concerned: to the servers of the attack, to all when none is named, and for a
// trap to all others.
func (n *Nemesis) lay(a *attack) {
	if len(a.Clients) != 1 {
		return
	}
	for _, r := range n.routes[a.Clients[0]] {
		if len(a.servers) == 0 || slices.Contains(a.servers, r.server) != (a.Kind == LeaderTrap) {
			a.routes = append(a.routes, r)
		}
	}
}

// wait returns false when ctx ends before the time is over.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
