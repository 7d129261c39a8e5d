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
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// Settings say how a server runs. The zero value is fit for most tests.
type Settings struct {
	// Dynamic is Temporal's dynamic configuration: keys, and values as JSON, such
	// as "history.maximumSignalsPerExecution": "10". Defaults to the program's.
	Dynamic map[string]string

	// OnDisk lets workflows outlive Stop and Kill, in a file that Close removes.
	// Defaults to false: in memory.
	OnDisk bool

	// StartTimeout bounds a start. Defaults to a minute: a second is enough on an
	// idle machine.
	StartTimeout time.Duration

	// UI serves the web interface, too, see Server.UI. Defaults to false.
	UI bool
}

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

// Run starts a server and returns when it takes workflows. ctx and Settings.StartTimeout bound the start
// alone; on failure the error holds the end of the server's log. The server ends with Close, and on Linux
// with the calling process, even when that is killed.
func Run(ctx context.Context, settings Settings) (*Server, error) {
	if settings.StartTimeout == 0 {
		settings.StartTimeout = time.Minute
	}
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
	for key, value := range s.settings.Dynamic {
		args = append(args, "--dynamic-config-value", key+"="+value)
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

// Alive tells whether the process runs, paused or not.
func (s *Server) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Alive()
}

// Restart starts a server again that was stopped or killed, and stops one that runs before that. It returns when the
// server takes workflows: with Settings.OnDisk those that it had, else none.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.settings.StartTimeout,
		fmt.Errorf("not ready after %s: %w", s.settings.StartTimeout, context.DeadlineExceeded))
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
	where := "devserver: "
	if s.port != nil {
		where = fmt.Sprintf("devserver at %s: ", s.Addr())
	}
	return fmt.Errorf(where+format, args...)
}
