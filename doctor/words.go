package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Limits of an answer: a server of thousands of clients lists them in some
// hundred kilobytes.
const (
	wordPatience = 2 * time.Second
	wordLength   = 4 << 20
)

// dial connects to a server as clients do.
func dial(ctx context.Context, cfg lock.Config, address string) (net.Conn, error) {
	connect := cfg.Dialer
	if connect == nil {
		connect = (&net.Dialer{}).DialContext
	}
	conn, err := connect(ctx, "tcp", address)
	if err != nil || cfg.TLS == nil {
		return conn, err
	}
	own := cfg.TLS.Clone()
	if own.ServerName == "" {
		own.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, own)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// word asks a server one of ZooKeeper's four-letter words.
func word(ctx context.Context, cfg lock.Config, address, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordPatience)
	defer cancel()
	conn, err := dial(ctx, cfg, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, wordLength))
	if len(text) > 0 {
		return string(text), nil // a server may hang up in bad manners
	}
	return "", cmp.Or(err, errors.New("no answer"))
}

// askWords asks for all figures that four-letter words give. Closed are the words
// that the server does not execute.
func askWords(ctx context.Context, cfg lock.Config, address string) (f figureMap, closed []string, answered bool) {
	f = figureMap{}
	for _, w := range []struct {
		name  string
		parse func(string) figureMap
	}{
		{"srvr", parseServer}, {"mntr", parseMonitor}, {"conf", parseConfiguration},
	} {
		text, err := word(ctx, cfg, address, w.name)
		switch {
		case err != nil:
		case strings.Contains(text, closedWord):
			answered = true
			closed = append(closed, w.name)
		default:
			answered = true
			f.merge(w.parse(text))
			if strings.Contains(text, notServing) {
				f["serving"] = "no"
			}
		}
	}
	return f, closed, answered
}

// adminWords are those that the admin server knows, and who answers.
var adminWords = []string{"srvr", "monitor", "configuration"}

// askAdmin asks the admin server of the same host. It reports false when none
// answers, or the one of another server.
func askAdmin(ctx context.Context, address string, port int) (figureMap, bool) {
	host, clients, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	f := figureMap{}
	for _, name := range adminWords {
		one, ok := askAdminOne(ctx, transport, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/commands/"+name)
		if !ok {
			return nil, false
		}
		if strings.Contains(one["error"], notServing) {
			f["serving"] = "no"
		}
		f.merge(one)
	}
	for _, name := range []string{"client_port", "secure_client_port"} {
		if f[name] == clients {
			return f, true
		}
	}
	return nil, false
}

func askAdminOne(ctx context.Context, transport http.RoundTripper, url string) (figureMap, bool) {
	ctx, cancel := context.WithTimeout(ctx, wordPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, false
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, wordLength))
	if err != nil {
		return nil, false
	}
	return parseAdmin(text)
}
