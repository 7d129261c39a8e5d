package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// embedded is the server of package zktest, on a port that is its own even
// while it is stopped.
type embedded struct {
	*zktest.Server
	end func() error
}

var _ Server = embedded{}

func runEmbedded(s Settings) (Server, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return nil, fmt.Errorf("testbed: %w", err)
	}
	server, err := zktest.Start(zktest.Addr(port.Addr()),
		zktest.TickTime(s.Tick), zktest.SessionTimeouts(s.ShortestSession, s.LongestSession), zktest.SweepInterval(s.Sweep))
	if err != nil {
		return nil, errors.Join(err, port.Release())
	}
	return embedded{server, sync.OnceValue(func() error { return errors.Join(server.Close(), port.Release()) })}, nil
}

func (s embedded) Expire(_ context.Context, session int64, _ []byte) error {
	if !s.Server.Expire(session) {
		return fmt.Errorf("testbed: there is no session %#x", uint64(session))
	}
	return nil
}

// Stop needs no good order: nothing is under way between two transactions.
func (s embedded) Stop() error { return s.Kill() }

func (s embedded) Kill() error {
	s.Server.Stop()
	return nil
}

func (s embedded) Restart(context.Context) error { return s.Server.Restart() }

// Pause is a partition from everybody: what is sent meanwhile is kept.
func (s embedded) Pause() error {
	s.Partition()
	return nil
}

func (s embedded) Resume() error {
	s.Heal()
	return nil
}

func (s embedded) Close() error { return s.end() }

// LogTail returns the last frames.
func (s embedded) LogTail(lines int) string {
	var b strings.Builder
	trace := s.Trace()
	for _, exchange := range trace[max(0, len(trace)-lines):] {
		b.WriteString(exchange.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func (s embedded) Ephemerals(context.Context) ([]string, error) {
	var paths []string
	for _, session := range s.Sessions() {
		paths = slices.Concat(paths, session.Ephemerals)
	}
	return paths, nil
}

func (s embedded) Watches(context.Context) ([]string, error) {
	var paths []string
	for _, watch := range s.Server.Watches() {
		if watch.Kind == zktest.DataWatch {
			paths = append(paths, watch.Path)
		}
	}
	return paths, nil
}
