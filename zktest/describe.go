package zktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// maxOps is how many operations of a transaction a description names.
const maxOps = 16

// describe says in one line what a frame is. op is that of the request, or of
// the request that is answered; of an event 0.
func describe(op zkwire.Op, body []byte, toClient bool) string {
	switch {
	case !toClient && op == zkwire.OpConnect:
		return describeConnect(body)
	case !toClient:
		return describeRequest(body)
	case op == zkwire.OpConnect:
		return describeConnected(body)
	default:
		return describeReply(op, body)
	}
}

func describeConnect(body []byte) string {
	r, err := zkwire.ParseConnect(body)
	if err != nil {
		return unreadable(zkwire.OpConnect, body)
	}
	timeout := time.Duration(r.Timeout) * time.Millisecond
	if r.Session == 0 {
		return fmt.Sprintf("connect, timeout %s", timeout)
	}
	return fmt.Sprintf("connect to session %#x, timeout %s, zxid %#x", uint64(r.Session), timeout, r.LastZxid)
}

func describeConnected(body []byte) string {
	r, err := zkwire.ParseConnectResponse(body)
	switch {
	case err != nil:
		return unreadable(zkwire.OpConnect, body)
	case r.Session == 0 || r.Timeout == 0:
		return "session expired"
	}
	return fmt.Sprintf("connected to session %#x, timeout %s",
		uint64(r.Session), time.Duration(r.Timeout)*time.Millisecond)
}

func describeRequest(body []byte) string {
	r, err := zkwire.ParseRequest(body)
	if err != nil {
		return unreadable(r.Op, body)
	}
	return fmt.Sprintf("#%d %s", r.Xid, describeOp(&r))
}

func describeOp(r *zkwire.Request) string {
	versioned := []zkwire.Op{zkwire.OpDelete, zkwire.OpSetData, zkwire.OpSetACL, zkwire.OpCheck}
	b := &strings.Builder{}
	b.WriteString(r.Op.String())
	if len(r.Ops) > 0 {
		b.WriteString("[")
		for i := range r.Ops {
			if i == maxOps {
				fmt.Fprintf(b, ", … %d in all", len(r.Ops))
				break
			}
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(describeOp(&r.Ops[i]))
		}
		b.WriteString("]")
	}
	if r.Path != "" {
		b.WriteString(" " + r.Path)
	}
	if len(r.Data) > 0 {
		fmt.Fprintf(b, " (%d bytes)", len(r.Data))
	}
	if r.Version != -1 && slices.Contains(versioned, r.Op) {
		fmt.Fprintf(b, " v%d", r.Version)
	}
	if r.Watch {
		b.WriteString(", watch")
	}
	if q := newRequest(r); len(q.watched) > 0 {
		b.WriteString(" " + strings.Join(q.watched[:min(len(q.watched), maxOps)], " "))
	}
	return b.String()
}

func describeReply(op zkwire.Op, body []byte) string {
	h, rest, err := zkwire.ParseReplyHeader(body)
	if err != nil {
		return unreadable(op, body)
	}
	if h.Xid == zkwire.XidNotification {
		kind, path, err := zkwire.ParseNotification(rest)
		if err != nil {
			return unreadable(op, body)
		}
		return fmt.Sprintf("%s %s", kind, path)
	}
	text := fmt.Sprintf("#%d %s %s, zxid %#x", h.Xid, op, h.Code.String(), h.Zxid)
	if h.Code == zkwire.OK && op.Creates() {
		if path := zkwire.NewDecoder(rest).String(); path != "" {
			text += ", " + path
		}
	}
	return text
}

func unreadable(op zkwire.Op, body []byte) string {
	return fmt.Sprintf("%s, unreadable, %d bytes", op, len(body))
}
