package testbed

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// apache is Apache's server. zkserver does most of what a Server does.
type apache struct{ *zkserver.Server }

var _ Server = apache{}

func runApache(ctx context.Context, s Settings) (Server, error) {
	server, err := zkserver.Run(ctx, zkserver.WithTick(s.Tick),
		zkserver.WithSessionTimeouts(s.ShortestSession, s.LongestSession),
		zkserver.WithJVMFlags(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", s.Sweep.Milliseconds())))
	if err != nil {
		return nil, err
	}
	return apache{server}, nil
}

func (s apache) Expire(ctx context.Context, session int64, password []byte) error {
	return zkserver.CloseSession(ctx, s.Addr(), session, password)
}

// Watches reads the answer to wchp: each path, and below it a line for each
// session that watches it.
func (s apache) Watches(ctx context.Context) ([]string, error) {
	text, err := s.Command(ctx, "wchp")
	if err != nil {
		return nil, err
	}
	var watches []string
	path := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "/"):
			path = line
		case strings.HasPrefix(line, "\t0x"):
			watches = append(watches, path)
		}
	}
	return watches, nil
}
