package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// connect answers the first frame of a connection.
func (s *Server) connect(c *conn, body []byte) {
	s.count(c)
	r, err := zkwire.ParseConnect(body)
	if err != nil || r.LastZxid > c.listener.replica.zxid {
		// A client that has seen more than this server must try another one.
		s.sever(c)
		return
	}
	timeout := min(max(time.Duration(r.Timeout)*time.Millisecond, s.opts.minTimeout), s.opts.maxTimeout)
	x := s.sessions[r.Session]
	if r.Session == 0 {
		x = s.newSession(timeout)
		s.commit(s.next(), nil)
		c.listener.replica.catchUp(0)
	} else {
		if x != nil && x.conn != nil {
			s.drop(x.conn) // even if the password is wrong
		}
		if x == nil || !x.knows(r.Password) {
			c.sent(zkwire.ConnectResponse{Password: make([]byte, 16), Old: r.Old}.Append(nil))
			s.drop(c)
			return
		}
		x.timeout = timeout
		s.touch(x)
	}
	c.session, x.conn = x, c
	c.sent(zkwire.ConnectResponse{
		Timeout: int32(x.timeout / time.Millisecond), Session: x.id, Password: x.password, Old: r.Old,
	}.Append(nil))
}

func (s *Server) count(c *conn) {
	c.seen.received++
	s.counted.received++
}
