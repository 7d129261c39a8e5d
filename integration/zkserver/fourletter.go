package zkserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
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

// Sessions is what a server knows of the sessions of its ensemble.
type Sessions struct {
	// Ephemerals holds the ephemeral nodes by the session that owns them.
	Ephemerals map[int64][]string
}

// Sessions returns the sessions and their ephemeral nodes, the answer to dump. Ask the leader, or a standalone server:
// a follower does not know of every session.
func (s *Server) Sessions(ctx context.Context) (Sessions, error) {
	text, err := s.Command(ctx, "dump")
	if err != nil {
		return Sessions{}, err
	}
	if !strings.HasPrefix(text, "SessionTracker dump:") {
		return Sessions{}, s.errorf("dump: not serving: %s", strings.TrimSpace(text))
	}
	sessions, err := parseDump(text)
	if err != nil {
		return Sessions{}, s.errorf("dump: %w", err)
	}
	return sessions, nil
}

// parseDump reads
//
//	SessionTracker dump:
//	Session Sets (1)/(1):
//	1 expire at Fri Nov 21 07:00:00 UTC 2025:
//		0x100000000000001
//	ephemeral nodes dump:
//	Sessions with Ephemerals (1):
//	0x100000000000001:
//		/path
//	Connections dump: …
func parseDump(text string) (Sessions, error) {
	sessions := Sessions{Ephemerals: map[int64][]string{}}
	inEphemerals := false
	var owner int64
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case strings.HasPrefix(line, "Connections dump"):
			return sessions, nil
		case strings.HasPrefix(line, "ephemeral nodes dump"):
			inEphemerals = true
		case strings.HasPrefix(line, "0x"):
			digits, _, _ := strings.Cut(strings.TrimPrefix(line, "0x"), ":")
			digits, _, _ = strings.Cut(digits, "\t") // a follower adds the timeout
			id, err := strconv.ParseUint(digits, 16, 64)
			if err != nil {
				return Sessions{}, fmt.Errorf("cannot read the session id in %q: %w", line, err)
			}
			owner = int64(id)
		case inEphemerals && strings.HasPrefix(line, "/"):
			sessions.Ephemerals[owner] = append(sessions.Ephemerals[owner], line)
		}
	}
	return sessions, nil
}
