package doctor

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A server is what was seen of one server of the connect string.
type server struct {
	address string
	refused error // of a connection

	figures figureMap
	source  source
	closed  []string // four-letter words that it does not execute

	session  error         // why there was none
	timeout  time.Duration // negotiated
	readOnly error         // why nothing was written
	sync     times
	read     times
	write    times // of a create and of a delete: two each
	stamp    *zkclient.Stamp

	// Of its own clock, seen when it accepted our connection.
	ahead    time.Duration
	accuracy time.Duration // 0: its clock was not seen
}

// source is who told the figures.
type source string

const (
	fromWords source = "four-letter words"
	fromAdmin source = "admin server"
	fromNone  source = ""
)

func (s *server) up() bool { return s.refused == nil && s.session == nil }

// withoutQuorum: it accepts connections, and serves no requests.
func (s *server) withoutQuorum() bool { return s.figures["serving"] == "no" }

// times are how long requests of one kind took.
type times []time.Duration

// percentile returns the time that p percent of all did not exceed; 0 without any.
func (t times) percentile(p int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// ask asks all that a server may be asked.
func (x *examiner) ask(ctx context.Context, address string) *server {
	s := &server{address: address, figures: figureMap{}}
	cfg := x.options.Client
	attempt, cancel := context.WithTimeout(ctx, wordPatience)
	conn, err := dial(attempt, cfg, address)
	cancel()
	if err != nil {
		s.refused = plainly(err)
		return s
	}
	_ = conn.Close()

	var admin, words figureMap
	var asking sync.WaitGroup
	var fromWord, fromHTTP bool
	asking.Go(func() { words, s.closed, fromWord = askWords(ctx, cfg, address) })
	asking.Go(func() { admin, fromHTTP = askAdmin(ctx, address, x.options.AdminPort) })
	asking.Wait()
	if fromWord && len(words) > 0 {
		s.source = fromWords
		s.figures.merge(words)
	}
	if fromHTTP {
		if s.source == fromNone || len(s.closed) > 0 {
			s.source = fromAdmin
		}
		s.figures.merge(admin)
	}
	if s.withoutQuorum() {
		s.session = errors.New("it is not serving requests")
		return s
	}
	x.measure(ctx, s)
	if s.session != nil && s.source == fromWords { // it may have lost its quorum meanwhile
		if text, err := word(ctx, cfg, address, "srvr"); err == nil && strings.Contains(text, notServing) {
			s.figures["serving"] = "no"
		}
	}
	return s
}

// rounds is how often each kind of request is sent.
const rounds = 25

// measure opens a session with one server, and sends it a few requests.
func (x *examiner) measure(ctx context.Context, s *server) {
	cfg := x.options.Client
	cfg.Servers = []string{s.address}
	client, err := lock.NewClient(cfg)
	if err != nil {
		s.session = err
		return
	}
	defer x.close(client)
	began := time.Now()
	attempt, cancel := context.WithTimeout(ctx, x.options.Timeout/2)
	defer cancel()
	if err := client.Ready(attempt); err != nil {
		s.session = plainly(err)
		return
	}
	connected := time.Now()
	s.timeout = client.SessionTimeout()
	probe, err := client.Probe(attempt)
	if err != nil {
		s.session = plainly(err)
		return
	}
	for range rounds {
		if !s.sync.take(func() error { return probe.Sync(attempt) }) ||
			!s.read.take(func() error { return probe.Read(attempt) }) {
			break
		}
	}
	if !x.options.ReadOnly {
		s.readOnly = s.writes(attempt, probe)
	}
	id, _ := client.Session()
	if text, err := word(attempt, cfg, s.address, "cons"); err == nil {
		if at, ok := parseEstablished(text, id); ok {
			half := connected.Sub(began) / 2
			s.ahead, s.accuracy = time.UnixMilli(at).Sub(began.Add(half)), half+time.Millisecond
		}
	}
}

// writes measures writes; the error is that of the first, if it is refused.
func (s *server) writes(ctx context.Context, probe *zkclient.Probe) error {
	stamp, err := probe.Stamp(ctx)
	if err != nil {
		return err
	}
	s.stamp = &stamp
	for range rounds {
		var node string
		created := s.write.take(func() (err error) {
			node, err = probe.Create(ctx)
			return err
		})
		if !created || !s.write.take(func() error { return probe.Delete(ctx, node) }) {
			break
		}
	}
	return nil
}

// take measures one request; it reports false when that failed.
func (t *times) take(request func() error) bool {
	began := time.Now()
	if request() != nil {
		return false
	}
	*t = append(*t, time.Since(began))
	return true
}

// plainly returns what is at the bottom of a server's silence.
func plainly(err error) error {
	if e, ok := errors.AsType[*lock.UnavailableError](err); ok && e.Err != nil {
		return e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" && !e.Timeout() {
		return e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}
