package zkdiff

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// server is a ZooKeeper, whosever it is.
type server struct {
	addr string
	stop func() error
	lie  func(frame []byte) // alters what it says; nil: nothing does
}

func (s server) dial() (*conn, error) {
	c, err := dial(s.addr)
	if err == nil {
		c.lie = s.lie
	}
	return c, err
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
	return server{addr: fake.Addr(), stop: fake.Close}, nil
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
	return server{addr: genuine.Addr(), stop: genuine.Close}, nil
}
