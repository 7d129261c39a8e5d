package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A side is one of the two servers that a scenario is played on, and the network in front of it.
type side struct {
	name    string
	network *netfault.Proxy
	restart func(context.Context) error
}

// connect is the connect string for clients.
func (s *side) connect() string { return s.network.Addr() }

// trouble does what a scenario asks for.
func (s *side) trouble(ctx context.Context, kind string) error {
	switch kind {
	case "cut":
		return s.network.Reset()
	case "network down":
		return s.network.Cut()
	case "network up":
		return s.network.Pass()
	case "restart":
		if s.restart == nil {
			return fmt.Errorf("%s is shared: a scenario that restarts it needs one of its own", s.name)
		}
		// A server that starts may accept a connection and forget it: clients come when it serves.
		return errors.Join(s.network.Cut(), s.restart(ctx), s.network.Pass())
	default:
		return fmt.Errorf("unknown trouble %q", kind)
	}
}

// realSide is a real ZooKeeper: the shared one, or one for this scenario alone that may be restarted.
func realSide(t *testing.T, own bool) *side {
	if !own {
		return &side{name: "the real server", network: netfault.New(t, shared.Server(t).Addr())}
	}
	server := zkserver.Start(t, realOptions()...)
	return &side{name: "the real server", network: netfault.New(t, server.Addr()), restart: server.Restart}
}

func realOptions() []zkserver.Option {
	return []zkserver.Option{
		zkserver.WithTick(tick),
		zkserver.WithSessionTimeouts(2*tick, longest),
		zkserver.WithSetting("extendedTypesEnabled", "true"),
		zkserver.WithJVMFlags(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", sweep.Milliseconds())),
	}
}

// embeddedSide is a zktest server for this scenario alone.
func embeddedSide(t *testing.T) *side {
	server := zktest.RunT(t,
		zktest.TickTime(tick),
		zktest.SessionTimeouts(2*tick, longest),
		zktest.TTL(),
		zktest.SweepInterval(sweep),
		zktest.FourLetterWords("*"))
	return &side{
		name:    "the embedded server",
		network: netfault.New(t, server.Addr()),
		restart: func(context.Context) error { return server.Restart() },
	}
}

// sides are both servers, for one scenario.
func sides(t *testing.T, own bool) (embedded, genuine *side) {
	t.Helper()
	embedded, genuine = embeddedSide(t), realSide(t, own)
	require.NotEqual(t, embedded.connect(), genuine.connect())
	return embedded, genuine
}
