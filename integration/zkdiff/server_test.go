package zkdiff

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// server is a ZooKeeper, whosever it is.
type server struct {
	addr string
	stop func() error
}

// launcher starts a server with an empty tree. All servers of one comparison must have the same settings.
type launcher func(context.Context) (server, error)

const tick = 200 * time.Millisecond

// oracle starts the real ZooKeeper. It sweeps no containers and TTL nodes by itself: they would go at any step.
func oracle(ctx context.Context) (server, error) {
	return launchOracle(ctx, zkserver.WithJVMFlags("-Dznode.container.checkIntervalMs=86400000"))
}

// embedded starts the fake.
func embedded(context.Context) (server, error) {
	return launchEmbedded(zktest.SweepInterval(24 * time.Hour))
}

// sweepingEmbedded starts the fake, which sweeps often.
func sweepingEmbedded(context.Context) (server, error) {
	return launchEmbedded(zktest.SweepInterval(tick))
}

func launchEmbedded(opts ...zktest.Option) (server, error) {
	fake, err := zktest.Start(append([]zktest.Option{
		zktest.TickTime(tick), zktest.SessionTimeouts(2*tick, longSession), zktest.TTL(),
	}, opts...)...)
	if err != nil {
		return server{}, err
	}
	return server{fake.Addr(), fake.Close}, nil
}

// sweepingOracle starts the real ZooKeeper, which sweeps often.
func sweepingOracle(ctx context.Context) (server, error) {
	return launchOracle(ctx, zkserver.WithJVMFlags("-Dznode.container.checkIntervalMs=200"))
}

func launchOracle(ctx context.Context, opts ...zkserver.Option) (server, error) {
	genuine, err := zkserver.Run(ctx, append([]zkserver.Option{
		zkserver.WithTick(tick),
		zkserver.WithSessionTimeouts(2*tick, longSession),
		zkserver.WithSetting("extendedTypesEnabled", "true"),
	}, opts...)...)
	if err != nil {
		return server{}, err
	}
	return server{genuine.Addr(), genuine.Close}, nil
}

// ahead starts servers before they are asked for, n at a time. None is left when stop returns.
func ahead(ctx context.Context, n int, launch launcher) (fast launcher, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan server)
	var starting sync.WaitGroup
	for range n {
		starting.Go(func() {
			for ctx.Err() == nil {
				s, err := launch(ctx)
				if err != nil {
					continue // the client will notice itself
				}
				select {
				case ready <- s:
				case <-ctx.Done():
					_ = s.stop()
				}
			}
		})
	}
	fast = func(ctx context.Context) (server, error) {
		select {
		case s := <-ready:
			return s, nil
		case <-ctx.Done():
			return server{}, context.Cause(ctx)
		}
	}
	return fast, func() {
		cancel()
		starting.Wait()
	}
}
