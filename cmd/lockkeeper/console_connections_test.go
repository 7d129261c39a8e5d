package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// noLocks is a source that sees nothing.
type noLocks struct{}

func (noLocks) Run(ctx context.Context, _ func(lock.Sighting)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A door is a console with the limits of a daemon's, and its probes.
type door struct {
	*testing.T
	addr string
}

func openDoor(t *testing.T) *door {
	t.Helper()
	cfg := &config.Config{Console: config.Console{Listen: "127.0.0.1:0", Hosts: []string{"locks.example.org"}}}
	s, err := listenForConsole(t.Context(), cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(s.close)
	board, err := live.New(live.Options{Source: noLocks{}, Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, s.start(console.Options{Board: board, Hosts: hostsOf(cfg, cfg.Console.Listen)}, func(mux *http.ServeMux) {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive") })
		}
	}))
	return &door{t, s.listener.Addr().String()}
}

// ask sends a request from 127.0.0.from on a connection of its own, which stays open,
// and returns the head of the answer.
func (d *door) ask(from int, path string) (status int) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(from))}}
	conn, err := dialer.DialContext(ctx, "tcp", d.addr)
	require.NoError(d, err)
	d.Cleanup(func() { _ = conn.Close() })
	require.NoError(d, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, d.addr)
	require.NoError(d, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // a stream has no end; the connection ends with the test
	require.NoError(d, err, "%s from %d", path, from)
	return answer.StatusCode
}

// addresses is from how many addresses a crowd comes: more than one may have
// connections for.
const addresses = 9

func TestIdleConnectionsDoNotBlockTheConsole(t *testing.T) {
	d := openDoor(t)
	for i := range 600 {
		require.Equal(t, http.StatusOK, d.ask(2+i%addresses, "/api/v1/locks"))
	}
	for _, path := range []string{"/healthz", "/readyz", "/", "/api/v1/locks"} {
		require.Equal(t, http.StatusOK, d.ask(100, path), path)
	}
}

func TestStreamsDoNotBlockTheConsole(t *testing.T) {
	d := openDoor(t)
	answers := map[int]int{}
	for i := range 600 {
		answers[d.ask(2+i%addresses, "/?live=1")]++
	}
	require.Equal(t, 200, answers[http.StatusOK])
	for _, path := range []string{"/healthz", "/readyz", "/", "/api/v1/locks"} {
		require.Equal(t, http.StatusOK, d.ask(100, path), path)
	}
}

func TestMonitorsAndPagesAreAnsweredUnderNamesOfTheConsoleAlone(t *testing.T) {
	d := openDoor(t)
	here, err := os.Hostname()
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/", "/api/v1/locks"} {
		for host, want := range map[string]int{
			d.addr: 200, "locks.example.org": 200, "localhost:9480": 200, here: 200, "10.9.8.7:9480": 200,
			"evil.example": 421, "127.0.0.1.evil.example:9480": 421,
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.addr+path, nil)
			require.NoError(t, err)
			r.Host = host
			answer, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, want, answer.StatusCode, "%s %s", host, path)
		}
	}
}

func TestNamesOfAListener(t *testing.T) {
	cfg := &config.Config{Console: config.Console{Hosts: []string{"locks.example.org"}}}
	here, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, []string{"locks.example.org", "db1.example.org", here}, hostsOf(cfg, "db1.example.org:9464"))
	require.Equal(t, []string{"locks.example.org", here}, hostsOf(cfg, ":9464"))
}
