package zkserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// Ensemble is several servers, three unless WithMembers says otherwise, that elect a leader and serve while
// most of the voters live.
type Ensemble struct {
	servers []*Server
	timeout time.Duration
}

// RunEnsemble starts an ensemble and returns when all members serve. See Run and WithMembers.
func RunEnsemble(ctx context.Context, opts ...Option) (*Ensemble, error) {
	servers, err := run(ctx, func(o options) int { return o.voters + o.observers }, opts)
	if err != nil {
		return nil, err
	}
	return &Ensemble{servers: servers, timeout: servers[0].options.startTimeout}, nil
}

// Servers returns the members, in the order of their numbers.
func (e *Ensemble) Servers() []*Server { return append([]*Server(nil), e.servers...) }

// Connect returns the connect string for clients: all addresses, separated by commas.
func (e *Ensemble) Connect() string { return strings.Join(e.Addrs(), ",") }

// Addrs returns the address of every member.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Leader waits until one of the members leads a quorum, and returns it. Without a quorum it gives up when ctx ends or
// the start timeout is over.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout,
		fmt.Errorf("no leader after %s: %w", e.timeout, context.DeadlineExceeded))
	defer cancel()
	var leader *Server
	err := process.Poll(ctx, 20*time.Millisecond, func() error {
		var errs []error
		for s, mode := range e.modes(ctx) {
			if mode.err == nil && mode.mode == Leader {
				leader = s
				return nil
			}
			errs = append(errs, mode.err)
		}
		return errors.Join(errs...)
	})
	if leader == nil {
		return nil, fmt.Errorf("zkserver: find the leader: %w", err)
	}
	return leader, nil
}

// Followers waits for a leader and returns the voters that serve under it.
func (e *Ensemble) Followers(ctx context.Context) ([]*Server, error) {
	return e.learners(ctx, Follower)
}

// Observers waits for a leader and returns the observers that serve under it.
func (e *Ensemble) Observers(ctx context.Context) ([]*Server, error) {
	return e.learners(ctx, Observer)
}

func (e *Ensemble) learners(ctx context.Context, mode Mode) ([]*Server, error) {
	if _, err := e.Leader(ctx); err != nil {
		return nil, err
	}
	modes := e.modes(ctx)
	var learners []*Server
	for _, s := range e.servers {
		if modes[s].mode == mode {
			learners = append(learners, s)
		}
	}
	return learners, nil
}

// Restart starts every member again whose process has ended, all at once, and returns when all serve.
func (e *Ensemble) Restart(ctx context.Context) error {
	var down []*Server
	for _, s := range e.servers {
		if !s.Alive() {
			down = append(down, s)
		}
	}
	return launchAll(ctx, down)
}

// Close closes all members; see Server.Close.
func (e *Ensemble) Close() error { return closeAll(e.servers) }

type modeAnswer struct {
	mode Mode
	err  error
}

func (e *Ensemble) modes(ctx context.Context) map[*Server]modeAnswer {
	var mu sync.Mutex
	answers := map[*Server]modeAnswer{}
	_ = Each(e.servers, func(s *Server) error {
		// A paused member would otherwise hold up the answer of the others.
		attempt, done := context.WithTimeout(ctx, time.Second)
		defer done()
		mode, err := s.Mode(attempt)
		mu.Lock()
		defer mu.Unlock()
		answers[s] = modeAnswer{mode, err}
		return nil
	})
	return answers
}

func launchAll(ctx context.Context, servers []*Server) error {
	for _, s := range servers {
		if err := s.Launch(); err != nil {
			return err
		}
	}
	return Each(servers, func(s *Server) error { return s.WaitServing(ctx) })
}

func closeAll(servers []*Server) error { return Each(servers, (*Server).Close) }

// Each calls do for all at once, servers or links between them, and returns all errors.
func Each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
