package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// Server is one ZooKeeper server: its address and data, and the process that may be running on them. Its
// methods may be called from any goroutine.
type Server struct {
	dir     *directory
	disk    *disk // nil: it cannot be filled
	id      int
	ports   []*loopback.Port
	peers   []PeerLink // on which it connects to others
	options options

	java string
	args []string

	mu      sync.Mutex
	process *process.Process // the last one started
	closed  bool
}

// Run starts a standalone server and returns when it serves. ctx and WithStartTimeout bound the start alone;
// on failure the error holds the end of the server's log. The server ends with Close, and on Linux with the
// calling process, even when that is killed.
func Run(ctx context.Context, opts ...Option) (*Server, error) {
	servers, err := run(ctx, func(options) int { return 1 }, opts)
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// run starts servers together, as many as size says, with new ports when somebody else was faster to take one.
func run(ctx context.Context, size func(options) int, opts []Option) ([]*Server, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	installation, err := Find()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		servers, err := prepare(installation, o, size(o))
		if err != nil {
			return nil, fmt.Errorf("zkserver: %w", err)
		}
		err = launchAll(ctx, servers)
		if err == nil {
			return servers, nil
		}
		err = errors.Join(err, closeAll(servers))
		if attempt == 3 || !strings.Contains(err.Error(), "java.net.BindException") {
			return nil, err
		}
	}
}

// prepare makes the directories, ports and configuration of n servers.
func prepare(in Installation, o options, n int) (servers []*Server, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(servers))
		}
	}()
	members := make([]member, n)
	for i := range n {
		s := &Server{id: i + 1, options: o, java: in.Java}
		servers = append(servers, s)
		if s.dir, err = newDirectory(o.disk); err != nil {
			return servers, err
		}
		if o.fullable {
			if s.disk, err = newDisk(s.dir.path, o.unmountable); err != nil {
				return servers, err
			}
		}
		if o.faketime != "" {
			if err = writeClock(s.dir.path, 0); err != nil {
				return servers, err
			}
		}
		s.args = command(in, o, s.dir.path)
		wanted := []**loopback.Port{&members[i].client, &members[i].quorum, &members[i].ballot}
		if n == 1 {
			wanted = wanted[:1]
		}
		for _, port := range wanted {
			if *port, err = loopback.Reserve(); err != nil {
				return servers, err
			}
			s.ports = append(s.ports, *port)
		}
		members[i].id, members[i].observer = s.id, n > 1 && i >= o.voters
	}
	var views []map[int]addresses
	if o.peerLinks && n > 1 {
		if views, err = linkPeers(servers, members); err != nil {
			return servers, err
		}
	}
	for i, s := range servers {
		var view map[int]addresses
		if views != nil {
			view = views[i]
		}
		if err = writeConfig(s.dir.path, o, members[i], members, view); err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// Addr returns the address that clients connect to, "127.0.0.1:port". It stays the same for the life of the Server.
func (s *Server) Addr() string { return s.ports[0].Addr() }

// Connect returns the connect string for clients: Addr.
func (s *Server) Connect() string { return s.Addr() }

// ID returns the server's number in its ensemble, from 1 on; 1 for a standalone server.
func (s *Server) ID() int { return s.id }

// Dir returns the directory that holds the server's configuration, data and log.
func (s *Server) Dir() string { return s.dir.path }

// PID returns the process id of the process that was started last.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Alive tells whether the process runs, paused or not.
func (s *Server) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Alive()
}

// Launch starts the process and does not wait until it serves: for members of an ensemble that has no quorum yet.
func (s *Server) Launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return s.errorf("launch: already closed")
	case s.process != nil && s.process.Alive():
		return s.errorf("launch: already running as process %d", s.process.PID())
	}
	log, err := os.OpenFile(logFile(s.dir.path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return s.errorf("open the log: %w", err)
	}
	started, err := launch(s.java, s.args, s.dir.path, log, clockEnvironment(s.options, s.dir.path))
	if err = errors.Join(err, log.Close()); err != nil {
		return s.errorf("%w", err)
	}
	s.process = started
	return nil
}

// WaitServing returns when the server answers requests: standalone, or as the leader or a follower of a quorum. It
// gives up, with the end of the log in the error, when ctx ends, the start timeout is over, or the process ends.
func (s *Server) WaitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.startTimeout,
		fmt.Errorf("not serving after %s: %w", s.options.startTimeout, context.DeadlineExceeded))
	defer cancel()
	err := process.Poll(ctx, 10*time.Millisecond, func() error {
		if !s.Alive() {
			return process.ErrEnded
		}
		// A starting server may accept a connection and then forget it.
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		_, err := s.Mode(attempt)
		return err
	})
	if err != nil {
		return s.errorf("wait until it serves: %w\nend of its log:\n%s", err, s.LogTail(30))
	}
	return nil
}

// Restart starts the server on its old data and address and returns when it serves; one that runs is stopped first.
// Sessions and their ephemeral nodes outlive it: they end when their timeout has passed after the start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitServing(ctx)
}

// Stop asks the process to end (SIGTERM) and returns when it has; after 10s it is killed. Stopping a stopped
// server does nothing.
func (s *Server) Stop() error {
	return s.with("stop", func(p *process.Process) error { return p.Terminate(10 * time.Second) })
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (s *Server) Kill() error { return s.with("kill", (*process.Process).Kill) }

// Pause stops the process from running (SIGSTOP) and returns when it has stopped: connections stay open, nothing is
// answered. Unlike Stop and Kill it is an error when the process has ended.
func (s *Server) Pause() error {
	return s.with("pause", func(p *process.Process) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return p.Pause(ctx)
	})
}

// Resume lets a paused process run on (SIGCONT).
func (s *Server) Resume() error {
	return s.with("resume", func(p *process.Process) error {
		if !p.Alive() {
			return process.ErrEnded
		}
		return p.Signal(syscall.SIGCONT)
	})
}

// Close kills the process, removes the data and gives the address back. It may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.process != nil {
		errs = append(errs, s.process.Kill())
	}
	errs = append(errs, s.closePeers(), s.disk.remove())
	if s.dir != nil {
		errs = append(errs, s.dir.remove())
	}
	for _, port := range s.ports {
		errs = append(errs, port.Release())
	}
	if err := errors.Join(errs...); err != nil {
		return s.errorf("close: %w", err)
	}
	return nil
}

// Log returns everything the server has written to its log, over all its starts.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(logFile(s.dir.path))
	if err != nil {
		return "", s.errorf("read the log: %w", err)
	}
	return string(text), nil
}

// LogTail returns the last lines of the log, without the frames of Java's stack traces, or the reason why
// there are none.
func (s *Server) LogTail(lines int) string {
	text, err := s.Log()
	if err != nil {
		return err.Error()
	}
	return tail(text, lines)
}

func tail(text string, lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimRight(text, "\n"), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ")
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *Server) with(what string, do func(*process.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	if err := do(s.process); err != nil {
		return s.errorf("%s: %w", what, err)
	}
	return nil
}

func (s *Server) errorf(format string, args ...any) error {
	where := fmt.Sprintf("zkserver %d: ", s.id)
	if len(s.ports) > 0 {
		where = fmt.Sprintf("zkserver %d at %s: ", s.id, s.Addr())
	}
	return fmt.Errorf(where+format, args...)
}
