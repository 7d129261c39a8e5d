package zkclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Read hands on what the server sent and takes note of each frame's header. The library reads a frame to its end
// before it asks for the next. If it read on, it would get replies to parcels as well: then Read ends the
// connection, and the outcome of those requests is unknown.
func (l *link) Read(b []byte) (int, error) {
	if l.held && l.frame.rest == 0 {
		l.awaitWatches()
	}
	if l.frame.between() {
		if err := l.receive(); err != nil {
			return 0, err
		}
	}
	n, err := l.in.Read(b)
	if n > 0 {
		l.mu.Lock()
		l.received = l.s.clock.now()
		l.mu.Unlock()
		var lost []*Parcel
		err := l.frame.feed(b[:n], func(h []byte, greeting bool) {
			if p := l.header(h, greeting); p != nil {
				lost = append(lost, p)
			}
		})
		if err == nil && len(lost) > 0 {
			err = errReadAhead
		}
		if err != nil {
			err = l.garbled(err)
			for _, p := range lost {
				p.fail(zk.ErrConnectionClosed) // not before the connection is closed, see Close
			}
			return 0, err
		}
	}
	if err != nil && l.wasTurnedAway() {
		l.s.turnedAway()
	}
	return n, err
}

// wasTurnedAway tells whether the server has hung up in place of an answer to
// the connect request.
func (l *link) wasTurnedAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.greeted && !l.welcome && !l.closed
}

// header takes the first bytes of each frame. It returns the parcel that the
// frame answers; nil: none.
func (l *link) header(h []byte, greeting bool) *Parcel {
	if greeting {
		timeout := time.Duration(int32(binary.BigEndian.Uint32(h[4:]))) * time.Millisecond
		id := int64(binary.BigEndian.Uint64(h[8:]))
		l.mu.Lock()
		l.welcome = true
		l.mu.Unlock()
		l.held = l.s.watches.resends()
		l.s.greeted(l.born, id, timeout, append([]byte(nil), h[20:36]...))
		return nil
	}
	xid := int32(binary.BigEndian.Uint32(h))
	var request sentRequest
	known := false
	l.mu.Lock()
	switch {
	case xid == zkwire.XidPing:
		if known = len(l.pings) > 0; known {
			request = sentRequest{at: l.pings[0], op: zkwire.OpPing}
			l.pings = l.pings[1:]
		}
	case xid > 0:
		if request, known = l.sent[xid]; known {
			delete(l.sent, xid)
			l.unanswered -= request.bytes
		}
	}
	now := l.received
	l.mu.Unlock()
	code := zkwire.Code(binary.BigEndian.Uint32(h[12:]))
	zxid := int64(binary.BigEndian.Uint64(h[4:]))
	if xid > 0 { // a ping's answer may be ahead of the events on their way
		l.s.zxid.Store(max(l.s.zxid.Load(), zxid))
	}
	if known {
		result := OperationOK
		if code != zkwire.OK {
			result = OperationRefused
		}
		l.s.c.tell(request.op, request.at, now, result)
	}
	if known && request.op == zkwire.OpCloseSession && code == zkwire.OK {
		l.s.closed.Store(true)
	}
	switch {
	case request.led && saysLeader(code):
		l.s.acked(l, leaderReply{sent: request.at, answered: now, zxid: zxid}, request.op != zkwire.OpSync)
	case xid == zkwire.XidAuth:
		if code != zkwire.OK {
			l.s.refused(
				fmt.Errorf("ZooKeeper refused the credentials (error %d); check the digest user and password", int32(code)))
		}
	}
	return request.parcel
}

// late says why the link must be closed, if it must: no greeting in time, or no
// sign of life or no answer for two fifths of the timeout. That leaves time to find
// another server before the session's deadline, which comes after half of the timeout.
func (l *link) late(now Instant, timeout time.Duration, greeted bool) error {
	limit := timeout * 2 / 5
	switch {
	case !greeted && l.isMute(now):
		return fmt.Errorf("%s accepts connections but does not speak", l.RemoteAddr())
	case greeted && l.isSilent(now, limit):
		return fmt.Errorf("%s has not answered for %s", l.RemoteAddr(), limit)
	}
	return nil
}

// errReadAhead ends a connection: the reply to a parcel has gone to the library, which knows of no such request.
var errReadAhead = errors.New("the ZooKeeper client library has read ahead, and a reply that is not for it is lost")
