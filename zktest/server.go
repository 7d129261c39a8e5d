package zktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// A Server is an in-memory ZooKeeper. Its methods may be called from any
// goroutine. When one returns, the server is in the new state; what clients
// notice of it comes over their connections.
type Server struct {
	opts    options
	faults  *faults
	running sync.WaitGroup  // goroutines
	ending  context.Context // ends with the server
	end     context.CancelFunc

	member *Member // nil: standalone

	mu          *sync.Mutex // of an ensemble's members: one for all
	closed      bool
	down        bool // between Stop and Restart
	clock       clock
	zxid        int64 // the last that was given to a transaction
	leader      *replica
	listeners   []*Listener
	conns       map[*conn]struct{} // that count
	open        map[*conn]struct{} // also those that have only been told to end
	sessions    map[int64]*session
	nextSession int64
	expiry      *time.Timer
	expiryAt    time.Duration // on the server's clock; 0: not armed
	sweeper     *time.Timer
	counted     counters
	disk        *snapshots // nil without DataDir
}

// counters are what the four-letter words tell.
type counters struct{ received, sent int }

// T is the part of *testing.T that RunT needs.
type T interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var errClosed = errors.New("zktest: the server is closed")

// RunT starts a server for a test and closes it at the test's end. A rule set
// with On that has never acted by then fails the test: a fault that did not
// happen proves nothing.
func RunT(t T, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		for _, rule := range s.faults.unfired() {
			t.Errorf("zktest: never happened: %s", rule)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return s
}

// Start starts a server. It ends with Close.
func Start(opts ...Option) (*Server, error) {
	o, err := newOptions(opts)
	if err == nil && o.ensemble.given != "" {
		err = fmt.Errorf("option %s is for StartEnsemble", o.ensemble.given)
	}
	if err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	s := newServer(o, new(sync.Mutex))
	if err := s.begin(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true // nothing is written any more
		s.halt()
		s.end()
		s.disk.release()
		return nil, err
	}
	return s, nil
}

func newServer(o options, mu *sync.Mutex) *Server {
	s := &Server{
		opts: o, faults: newFaults(), clock: newClock(o.frozen), mu: mu,
		conns: make(map[*conn]struct{}), open: make(map[*conn]struct{}), sessions: make(map[int64]*session),
	}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

func (s *Server) begin() error {
	s.mu.Lock()
	s.forget()
	if s.opts.dataDir != "" {
		if err := s.openDir(s.opts.dataDir); err != nil {
			s.mu.Unlock()
			return &DataDirError{Dir: s.opts.dataDir, Err: err}
		}
	}
	s.armSweeper()
	s.mu.Unlock()
	_, err := s.Listen("")
	return err
}

// forget makes the server a new one.
func (s *Server) forget() {
	s.leader, s.zxid = newReplica(s.opts.ttl), 0
	s.sessions = make(map[int64]*session)
	s.nextSession = max(s.nextSession, firstSession(s.clock.now()))
}

// Addr returns the host:port for clients, of the first listener.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners[0].address
}

// Close ends the server and returns when nothing of it is left. It may be
// called again. An error tells that the state could not be saved (DataDir).
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.running.Wait()
		return nil
	}
	s.halt()
	for c := range s.open {
		c.cut() // even behind a partition
	}
	s.closed = true
	s.end()
	s.mu.Unlock()
	s.running.Wait()
	err := s.saveLast()
	if err != nil {
		return fmt.Errorf("zktest: close: %w", err)
	}
	return nil
}

// halt cuts all connections and accepts no more.
func (s *Server) halt() {
	s.down = true
	for _, l := range s.listeners {
		l.shut()
	}
	for c := range s.open {
		s.crash(c)
	}
	for _, timer := range []*time.Timer{s.expiry, s.sweeper} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.expiryAt = 0
}

// Stop ends the server as a crash would: connections are cut, new ones are
// refused. Nodes and sessions stay, as they do on the disk of a real one.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.down {
		s.halt()
	}
}

// Restart stops the server, unless it is stopped, and starts it again at the
// same addresses, with the nodes and sessions that it had. Each session has
// its whole timeout to come back, as after the restart of a real server.
// Watches are gone; clients bring theirs with them.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if !s.down {
		s.halt()
	}
	s.down = false
	for _, l := range s.listeners {
		l.replica.catchUp(0)
		if !s.opts.pipe {
			if err := l.listen(); err != nil {
				s.halt()
				return err
			}
		}
	}
	for _, x := range s.sessions {
		x.expires = 0
		s.renew(x)
	}
	s.armSweeper()
	return nil
}

// LoseData makes the server forget all nodes and sessions, as if it had been
// set up anew at the same address. Connections are cut; clients that have seen
// later transactions than the empty server has are turned away without an
// answer, as real servers do, until they give their session up.
func (s *Server) LoseData() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		s.crash(c)
	}
	old := s.leader
	s.forget()
	for _, l := range s.listeners {
		if l.replica == old {
			l.replica = s.leader
			continue
		}
		l.replica = &replica{tree: s.leader.tree.Clone(), watches: tree.NewWatches[*conn](), lag: l.replica.lag}
	}
	s.dirty()
}
