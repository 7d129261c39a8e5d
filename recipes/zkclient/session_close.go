package zkclient

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// closeAnew closes the session over a connection of its own. go-zookeeper asks for
// that once, over the connection that it has: if that is gone, or breaks before the
// answer, the session's nodes, locks among them, would stay until its timeout.
func (s *Session) closeAnew() {
	s.mu.Lock()
	id, password, timeout, l := s.id, s.password, s.timeout, s.link
	s.mu.Unlock()
	if id == 0 {
		return
	}
	takes := min(timeout/3, closingTakes)
	ctx, cancel := context.WithTimeout(context.Background(), takes)
	defer cancel()
	servers := slices.Clone(s.c.cfg.Servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	if i := slices.Index(servers, l.server); i >= 0 { // the one that was connected has not answered
		servers = append(slices.Delete(servers, i, i+1), l.server)
	}
	patience := takes / time.Duration(max(2, min(len(servers), 4)))
	for pause, next := 10*time.Millisecond, 0; ; pause, next = min(2*pause, 200*time.Millisecond), (next+1)%len(servers) {
		try, giveUp := context.WithTimeout(ctx, patience)
		err := s.closeOver(try, servers[next], id, password)
		giveUp()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.c.log.Warn("the ZooKeeper session is closed here but not at the servers: its nodes stay until it expires",
				"session", sessionName(id), "timeout", timeout, "error", err)
			return
		case <-time.After(pause):
		}
	}
}

// closingTakes is how long a client that closes tries to reach a server once more.
const closingTakes = 2 * time.Second

// closeOver returns nil when a server has closed the session, or does not know it.
func (s *Session) closeOver(ctx context.Context, server string, id int64, password []byte) error {
	conn, err := s.c.cfg.Dialer(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer s.c.ending.Go(func() { _ = conn.Close() }) // not here: see link.Close
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	request := zkwire.ConnectRequest{Session: id, Timeout: int32(s.TimeoutNow().Milliseconds()), Password: password}
	const xid = 1
	frames := request.Append(nil)
	if auth := s.c.cfg.Auth; auth != nil { // a server may refuse all that comes from strangers
		frames = appendAuth(frames, auth)
	}
	start := len(frames)
	frames = zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(frames), xid), int32(zkwire.OpCloseSession))
	if _, err := conn.Write(zkwire.EndFrame(frames, start)); err != nil {
		return err
	}
	greeting, err := readFrame(conn)
	if err != nil {
		return err
	}
	known, err := zkwire.ParseConnectResponse(greeting)
	if err != nil {
		return err
	}
	if known.Session != id {
		return nil // it has expired, or the leader has got the first request
	}
	for {
		reply, err := readFrame(conn)
		if err != nil {
			return err
		}
		h, _, err := zkwire.ParseReplyHeader(reply)
		switch {
		case err != nil:
			return err
		case h.Xid == xid && h.Code != zkwire.OK:
			return h.Code
		case h.Xid == xid:
			return nil
		}
	}
}

// readFrame reads a frame of a connection that has no watches: all are short.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxGreeting {
		return nil, fmt.Errorf("a message of %d bytes: %w", size, errGarbled)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(r, body)
	return body, err
}
