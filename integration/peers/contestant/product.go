package contestant

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// product has our locks: the PriorityLock, and the Semaphore where there are permits.
type product struct {
	options Options
	clients map[int][]*lock.Client // by the local queue they have
}

func newProduct(o Options) house { return &product{options: o, clients: map[int][]*lock.Client{}} }

func (p *product) get(ctx context.Context, client, localQueue int) (*lock.Client, error) {
	for len(p.clients[localQueue]) <= client {
		c, err := connect(ctx, p.options, len(p.clients[localQueue]), localQueue)
		if err != nil {
			return nil, err
		}
		p.clients[localQueue] = append(p.clients[localQueue], c)
	}
	return p.clients[localQueue][client], nil
}

func connect(ctx context.Context, o Options, client, localQueue int) (*lock.Client, error) {
	c, err := lock.NewClient(clientConfig(o, client, localQueue))
	if err != nil {
		return nil, err
	}
	return c, c.Ready(ctx)
}

// clientConfig is the one place that says how a client is made: with defaults, but for what all contestants
// have alike, and what the name of the work says.
func clientConfig(o Options, client, localQueue int) lock.Config {
	return lock.Config{
		Servers: []string{o.server(client)}, SessionTimeout: o.Session, ConnectTimeout: time.Minute, LocalQueue: localQueue,
	}
}

func (p *product) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var errs []error
	for _, clients := range p.clients {
		for _, c := range clients {
			errs = append(errs, c.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

func (p *product) door(ctx context.Context, worker, client int, turn Turn) (acquire, error) {
	c, err := p.get(ctx, client, turn.LocalQueue)
	if err != nil {
		return nil, err
	}
	if turn.Permits > 0 {
		return semaphore(c, turn.Locks[worker], turn.Permits)
	}
	l, err := c.PriorityLock(turn.Locks[worker])
	if err != nil {
		return nil, err
	}
	request := lock.Request{Identity: priority.Identity{Owner: "bench"}}
	if turn.Shared {
		request.Mode = priority.Shared
	}
	return func(ctx context.Context) (func(context.Context) error, error) {
		grant, err := l.Acquire(ctx, request)
		if err != nil {
			return nil, err
		}
		return grant.Release, nil
	}, nil
}

func semaphore(c *lock.Client, name string, permits int) (acquire, error) {
	s, err := classic.NewSemaphore(c.Client, "/lockkeeper-semaphores/"+name, classic.SemaphoreOptions{Limit: permits})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (func(context.Context) error, error) {
		permit, err := s.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return s.Release(ctx, permit) }, nil
	}, nil
}
