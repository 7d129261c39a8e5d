package zkserver

import (
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// Mode is what a server that serves does.
type Mode string

// The modes of a server that serves.
const (
	Standalone Mode = "standalone"
	Leader     Mode = "leader"
	Follower   Mode = "follower"
	Observer   Mode = "observer"
)

// Mode asks the server for its mode. It is an error when the server does not serve: down, paused, or without a quorum.
func (s *Server) Mode(ctx context.Context) (Mode, error) {
	text, err := s.Command(ctx, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return Mode(strings.TrimSpace(mode)), nil
		}
	}
	return "", s.errorf("srvr: not serving: %s", strings.TrimSpace(text))
}

// Command asks the server. See Ask.
func (s *Server) Command(ctx context.Context, word string) (string, error) {
	text, err := Ask(ctx, s.Addr(), word)
	if err != nil {
		return "", s.errorf("%s: %w", word, err)
	}
	return text, nil
}

// Ask sends one of ZooKeeper's four letter words (srvr, mntr, cons, dump, wchs, wchc, wchp …) to the server at addr and
// returns the answer. Without a deadline in ctx it gives up after 5s.
func Ask(ctx context.Context, addr, word string) (string, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// Monitor returns the server's figures, the answer to mntr: zk_watch_count, zk_ephemerals_count, zk_znode_count,
// zk_num_alive_connections and a few hundred more.
func (s *Server) Monitor(ctx context.Context) (map[string]string, error) {
	text, err := s.Command(ctx, "mntr")
	if err != nil {
		return nil, err
	}
	figures := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			figures[key] = value
		}
	}
	if len(figures) == 0 {
		return nil, s.errorf("mntr: no figures in the answer %q", text)
	}
	return figures, nil
}

// Ephemerals returns the paths of all ephemeral nodes, from the answer to dump. Ask the leader, or a standalone server:
// a follower does not know of every session.
func (s *Server) Ephemerals(ctx context.Context) ([]string, error) {
	text, err := s.Command(ctx, "dump")
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(text, "SessionTracker dump:") {
		return nil, s.errorf("dump: not serving: %s", strings.TrimSpace(text))
	}
	_, nodes, _ := strings.Cut(text, "ephemeral nodes dump:")
	nodes, _, _ = strings.Cut(nodes, "Connections dump:")
	var paths []string
	for line := range strings.Lines(nodes) {
		if path := strings.TrimSpace(line); strings.HasPrefix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
