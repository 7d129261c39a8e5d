package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/examples/nightly"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/health"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
)

const (
	// defaultConsole is where dev serves its console.
	defaultConsole = "127.0.0.1:9480"

	noConsole = "off"

	// devRefusal is shown instead of actions: dev has no sign-in.
	devRefusal = "The console of dev is read-only: it has no sign-in. To act, " +
		"use the commands that lockkeeper dev has printed, or a daemon with console: {actions: true, users_file: FILE}."
)

// addConsole checks what --console says: anyone who reaches the console of dev sees all
// of it, so that it has to be on this machine.
func (p *problems) addConsole(address string) {
	if address == noConsole {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		p.add(
			fmt.Sprintf("--console: %q is not an address; write host:port, for example %s, with port 0 for a free one, or %s",
				address, defaultConsole, noConsole))
		return
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		p.add(fmt.Sprintf("--console: %s could be reached from other machines, without a sign-in; "+
			"write an address like %s, or use lockkeeper run, with users_file and tls", address, defaultConsole))
	}
}

// A devConsole is the console of dev. nil is none.
type devConsole struct {
	server   *consoleServer
	seeing   *observatory
	measured *metricsServer
}

// newDevMetrics measures what the daemons of dev do, and all locks, for the console to
// serve.
func newDevMetrics(seeing *observatory, logger *slog.Logger) (*metricsServer, error) {
	endpoint, err := metrics.New(logger)
	if err != nil {
		return nil, err
	}
	m := &metricsServer{log: logger, endpoint: endpoint}
	if m.locks, err = metrics.NewLocks(endpoint.Meter()); err == nil {
		endpoint.Show(m.locks)
		err = errors.Join(m.locks.Cluster(seeing.now, seeing.client.Now), metrics.Client(endpoint.Meter(), seeing.client))
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// openConsole looks at all locks and serves the console, read-only. Without
// --console it takes a free port when the usual one is taken.
func (p *program) openConsole(ctx context.Context, d *devFlags) (*devConsole, error) {
	if d.console == noConsole {
		return nil, nil
	}
	logger := p.quiet()
	listener, err := listenForDev(ctx, d.console)
	if err != nil {
		return nil, err
	}
	s := &consoleServer{log: logger, address: listener.Addr().String(), listener: listener}
	s.bound(nil)
	cfg := &config.Config{Client: d.client}
	cfg.Client.Logger = nil // what it says of ZooKeeper, the daemons say
	seeing, err := openObservatory(ctx, cfg, logger)
	if err != nil {
		s.close()
		return nil, err
	}
	c := &devConsole{server: s, seeing: seeing}
	s.board.Store(seeing.board)
	var file *config.Config
	if !d.noJobs.is {
		if file, err = nightly.File(); err != nil {
			c.close()
			return nil, err
		}
	}
	for i := 0; d.unsafe.is && i < len(file.Jobs); i++ {
		file.Jobs[i].Requirements = nil
	}
	if c.measured, err = newDevMetrics(seeing, logger); err != nil {
		c.close()
		return nil, err
	}
	facts := &consoleFacts{client: seeing.client, board: seeing.board, config: func() *config.Config { return file }}
	err = s.start(console.Options{
		Board: seeing.board, Facts: facts.all(), Logger: logger, Name: d.client.Chroot + d.client.Root,
		Now: seeing.client.Now, Refusal: devRefusal, Version: buildVersion().Version,
	}, func(mux *http.ServeMux) {
		mux.Handle("GET /metrics", c.measured.endpoint.Handler())
		mux.Handle("GET /healthz", health.Alive(func() any { return healthOf(ctx, seeing.client) }))
		mux.Handle("GET /readyz",
			health.Ready(append(health.Session(seeing.client.Health), health.Check{Name: "locks", Ask: seeing.ready})...))
	})
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// listenForDev listens at address, or where the console usually is.
func listenForDev(ctx context.Context, address string) (net.Listener, error) {
	if address != "" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil,
				fmt.Errorf("--console: %s is taken; name another address, or leave the flag out for a free port", address)
		}
		if failed, ok := errors.AsType[*net.OpError](err); ok {
			return nil, fmt.Errorf(
				"--console: %s cannot be used: %w; name an address of this machine with a port above 1023, or leave the flag out",
				address, failed.Err)
		}
		return listener, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", defaultConsole)
	if errors.Is(err, syscall.EADDRINUSE) {
		return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	return listener, err
}

// url is what people open in a browser; "" without a console.
func (c *devConsole) url() string {
	if c == nil {
		return ""
	}
	return "http://" + c.server.address + "/"
}

// observer has the console told what the guards of dev do, and next.
func (c *devConsole) observer(next lockguard.Observer) lockguard.Observer {
	if c == nil {
		return next
	}
	measure := c.measured.locks.Observer(metrics.Cron)
	return func(ctx context.Context, e lockguard.Event) {
		measure(ctx, e)
		c.seeing.board.Observe(ctx, e)
		next(ctx, e)
	}
}

// close ends what people look at, then the looking.
func (c *devConsole) close() {
	if c != nil {
		c.server.close()
		c.measured.close()
		c.seeing.end()
	}
}
