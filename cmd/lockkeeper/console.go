package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/connlimit"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A consoleServer serves the console. nil serves nothing.
type consoleServer struct {
	log      *slog.Logger
	address  string
	listener net.Listener
	server   *http.Server
	gate     *connlimit.Gate
	users    *console.Users
	page     *console.Console
	board    atomic.Pointer[live.Board] // once there is one
}

// listenForConsole takes the address of the file, if it has one. Callers are
// answered from serve on, and wait until then.
func listenForConsole(ctx context.Context, cfg *config.Config, logger *slog.Logger) (*consoleServer, error) {
	address := cfg.Console.Listen
	if address == "" {
		return nil, nil
	}
	s := &consoleServer{log: logger, address: address}
	var err error
	if cfg.Console.UsersFile != "" {
		if s.users, err = console.LoadUsers(cfg.Console.UsersFile, logger, nil); err != nil {
			return nil, &codeError{exitConfig, fmt.Sprintf("%s: console.users_file: %v", cfg.File, err)}
		}
	}
	s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListenFor("console.listen", cfg.File, address, err)
	}
	s.bound(cfg.Console.Proxy)
	if files := cfg.Console.TLS; files != nil {
		keeper := &certificate{files: *files, log: logger}
		s.listener = tls.NewListener(s.listener,
			&tls.Config{GetCertificate: keeper.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	}
	return s, nil
}

// bound makes the server that answers on the listener, with a limit on connections.
func (s *consoleServer) bound(proxy *console.Proxy) {
	var proxies []netip.Prefix
	if proxy != nil {
		proxies = proxy.Trusted
	}
	s.gate = newGate(proxies)
	s.listener = s.gate.Listener(s.listener)
	s.server = consoleHTTP(s.log)
	s.gate.Attach(s.server)
}

// hostsOf are the names under which something that listens on an address is found:
// those of the file, that of the address, and that of this machine.
func hostsOf(cfg *config.Config, address string) []string {
	hosts := slices.Clone(cfg.Console.Hosts)
	if name, _, err := net.SplitHostPort(address); err == nil && name != "" {
		hosts = append(hosts, name)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return hosts
}

// newGate limits connections, but for probes.
func newGate(proxies []netip.Prefix) *connlimit.Gate {
	return connlimit.New(connlimit.Limits{Probes: []string{"/healthz", "/readyz"}, Proxies: proxies})
}

func consoleHTTP(logger *slog.Logger) *http.Server {
	return &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // but for pages that are kept up to date
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do wrong
	}
}

// cannotListenFor tells an address that is taken, which may be free again soon,
// from one that will never do. key is where the file has it.
func cannotListenFor(key, file, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &codeError{exitNotAcquired, fmt.Sprintf("%s: %s: %s is taken, perhaps by another daemon on this machine; "+
			"stop that, or write another address", file, key, address)}
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err // the rest is said already
	}
	return &codeError{exitConfig, fmt.Sprintf(
		"%s: %s: %s cannot be used: %v; write an address of this machine, with a port above 1023", file, key, address, err)}
}

// A consoleRoom is what the console of a daemon works with. nil is nothing.
type consoleRoom struct {
	observatory *observatory // nil: that of the metrics, which end it
	hand        *consoleHand
}

// end withdraws what people have asked for, and ends the looking. It may be called
// more than once.
func (r *consoleRoom) end() {
	if r == nil {
		return
	}
	r.hand.end()
	r.observatory.end()
	r.observatory = nil
}

// options have the console told what a guard does.
func (s *consoleServer) options() []lockguard.Option {
	if s == nil {
		return nil
	}
	return []lockguard.Option{lockguard.WithObserver(func(ctx context.Context, e lockguard.Event) {
		if board := s.board.Load(); board != nil {
			board.Observe(ctx, e)
		}
	})}
}

// open begins to look at all locks, and serves the console until close.
func (s *consoleServer) open(
	ctx context.Context, cfg *config.Config, client *lock.Client, reloader *config.Reloader, operators *operations,
	metrics *metricsServer,
) (*consoleRoom, error) {
	if s == nil {
		return nil, nil
	}
	room, seeing := &consoleRoom{}, (*observatory)(nil)
	if metrics != nil {
		seeing = metrics.observatory
	}
	var err error
	if seeing == nil {
		if room.observatory, err = openObservatory(ctx, cfg, s.log); err != nil {
			return nil, err
		}
		seeing = room.observatory
	}
	s.board.Store(seeing.board)
	facts := &consoleFacts{
		client: client, board: seeing.board, config: reloader.Config, desk: operators.desk, workflows: operators.workflows,
	}
	if room.hand, err = newConsoleHand(client, cfg, facts, s.log); err == nil {
		err = s.serve(ctx, cfg, seeing.board, facts, room.hand, func(mux *http.ServeMux) {
			mountHealth(ctx, mux, client, operators, seeing)
			if metrics != nil {
				mux.Handle("GET /metrics", metrics.endpoint.Handler())
			}
		})
	}
	if err != nil {
		room.end()
		return nil, err
	}
	return room, nil
}

// serve answers until close; more adds what else is served.
func (s *consoleServer) serve(
	ctx context.Context, cfg *config.Config, board console.Board, facts *consoleFacts, hand console.Operator,
	more func(*http.ServeMux),
) error {
	set := cfg.Console
	options := console.Options{
		Board: board, Facts: facts.all(), Hosts: hostsOf(cfg, set.Listen), Links: set.Links, Logger: s.log,
		Name: cfg.Client.Chroot + cfg.Client.Root, Now: facts.client.Now, Private: set.Private, Proxy: set.Proxy,
		Users: s.users, TLS: set.TLS != nil, Version: buildVersion().Version, Refusal: "This console is read-only. " +
			"To act here, set console: {actions: true, users_file: FILE} in " + cfg.File + ".",
	}
	if set.Actions {
		options.Operator = hand
	}
	if err := s.start(options, more); err != nil {
		return err
	}
	s.log.Info("the console is served", "address", s.listener.Addr().String(), "actions", set.Actions)
	if set.Actions {
		go s.tellOperator(ctx, facts.client)
	}
	return nil
}

// tellOperator logs that the daemon is no operator, so that all actions in its console are refused.
func (s *consoleServer) tellOperator(ctx context.Context, client *lock.Client) {
	err := client.CheckOperator(ctx, "what people do in the console is refused")
	if errors.As(err, new(*lock.IdentityError)) {
		s.log.Warn("actions in the console are refused", "problem", err)
	}
}

// start serves the console, and what more adds for monitors.
func (s *consoleServer) start(options console.Options, more func(*http.ServeMux)) (err error) {
	if s.page, err = console.New(options); err != nil {
		return err
	}
	pages, probes := s.page.Handler(), http.NewServeMux()
	if more != nil {
		more(probes)
	}
	monitors := console.ForMonitors(options.Hosts, probes)
	s.server.Handler = s.gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := probes.Handler(r); pattern != "" {
			monitors.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	}))
	s.server.RegisterOnShutdown(s.page.Close)
	go func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the console is not served any more", "error", err)
		}
	}()
	return nil
}

func (s *consoleServer) close() {
	if s == nil {
		return
	}
	if s.page != nil {
		s.page.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeMetrics)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	_ = s.listener.Close() // if it was not served
}

// A certificate is read again when its files have changed: it is renewed more often
// than a daemon is started.
type certificate struct {
	files config.ConsoleTLS
	log   *slog.Logger

	mu   sync.Mutex
	is   *tls.Certificate
	read [2]time.Time // when the files were written
	look time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const again = time.Second
	now := time.Now()
	if c.is != nil && now.Sub(c.look) < again {
		return c.is, nil
	}
	c.look = now
	written := c.written()
	if c.is != nil && written == c.read {
		return c.is, nil
	}
	is, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	switch {
	case err == nil:
		c.is, c.read = &is, written
	case c.is == nil:
		return nil, err
	default:
		c.log.Error("the certificate of the console cannot be read; the one before is used",
			"file", c.files.CertFile, "error", err)
	}
	return c.is, nil
}

func (c *certificate) written() (at [2]time.Time) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

var _ console.Operator = (*consoleHand)(nil)
