package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// Settings say how a server runs. The zero value is fit for most tests.
type Settings struct {
	// OnDisk lets workflows outlive Stop, in a file that Close removes.
	// Defaults to false: in memory.
	OnDisk bool

	// UI serves the web interface, too, see Server.UI. Defaults to false.
	UI bool
}

// startTimeout bounds a start: a second is enough on an idle machine.
const startTimeout = time.Minute

// Server is one Temporal server: its address and data, and the process that may be running on them. Its methods may be
// called from any goroutine.
type Server struct {
	settings Settings
	program  string
	port, ui *loopback.Port // ui: nil without
	dir      string         // "": in memory
	journal  journal

	mu      sync.Mutex
	process *process.Process // the last one started
	closed  bool
}

// Run starts a server and returns when it takes workflows. ctx and a timeout of a minute bound the start
// alone; on failure the error holds the end of the server's log. The server ends with Close, and on Linux
// with the calling process, even when that is killed.
func Run(ctx context.Context, settings Settings) (*Server, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		s := &Server{settings: settings, program: program}
		err := s.prepare()
		if err == nil {
			err = s.Restart(ctx)
		}
		if err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Close())
		// The ports inside the server are its own choice, and somebody else may have been faster.
		if attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

func (s *Server) prepare() (err error) {
	if s.port, err = loopback.Reserve(); err != nil {
		return err
	}
	if s.settings.UI {
		if s.ui, err = loopback.Reserve(); err != nil {
			return err
		}
	}
	if s.settings.OnDisk {
		if s.dir, err = os.MkdirTemp("", "lockkeeper-temporal-"); err != nil {
			return fmt.Errorf("make a directory for Temporal: %w", err)
		}
	}
	return nil
}

func (s *Server) args() []string {
	args := []string{
		"server", "start-dev", "--disable-config-file", "--disable-config-env",
		"--ip", "127.0.0.1", "--port", strconv.Itoa(s.port.Number()),
	}
	if s.ui != nil {
		args = append(args, "--ui-port", strconv.Itoa(s.ui.Number()))
	} else {
		args = append(args, "--headless")
	}
	if s.dir != "" {
		args = append(args, "--db-filename", filepath.Join(s.dir, "temporal.db"))
	}
	return args
}

// Addr returns the address that clients and workers connect to, "127.0.0.1:port". It never changes.
func (s *Server) Addr() string { return s.port.Addr() }

// UI returns the address of the web interface, "http://127.0.0.1:port", or "" without Settings.UI.
func (s *Server) UI() string {
	if s.ui == nil {
		return ""
	}
	return "http://" + s.ui.Addr()
}

// PID returns the process id of the process that was started last.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Alive tells whether the process runs.
func (s *Server) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Alive()
}

// Restart starts a server again that was stopped, and stops one that runs before that. It returns when the
// server takes workflows: with Settings.OnDisk those that it had, else none.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %s: %w", startTimeout, context.DeadlineExceeded))
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return s.errorf("wait until it takes workflows: %w\nend of its log:\n%s", err, s.LogTail(30))
	}
	return nil
}

func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.errorf("start: already closed")
	}
	started, err := launch(s.program, s.args(), &s.journal)
	if err != nil {
		return s.errorf("%w", err)
	}
	s.process = started
	return nil
}

// Stop asks the process to end (SIGTERM) and returns when it has; after 10s it is killed. Stopping a stopped
// server does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	if err := s.process.Terminate(10 * time.Second); err != nil {
		return s.errorf("stop: %w", err)
	}
	return nil
}

// Close kills the process, removes the data and gives the ports back. It may be called again.
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
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	for _, port := range []*loopback.Port{s.port, s.ui} {
		if port != nil {
			errs = append(errs, port.Release())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s.errorf("close: %w", err)
	}
	return nil
}

// LogTail returns the last lines of what the server has written, over all its starts.
func (s *Server) LogTail(lines int) string { return s.journal.since(0, lines) }

func (s *Server) errorf(format string, args ...any) error {
	where := "devserver: "
	if s.port != nil {
		where = fmt.Sprintf("devserver at %s: ", s.Addr())
	}
	return fmt.Errorf(where+format, args...)
}
