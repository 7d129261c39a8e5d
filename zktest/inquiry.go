package zktest

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// An inquiry is a request that was delivered, or is to be answered here.
type inquiry struct {
	xid  int32
	op   zkwire.Op
	rule *Rule // acts on the reply
	code Code  // to be answered with by the gate; 0: the server answers
}

// answers finds out what a frame for the client is: the connect response, an
// event, or the answer to what.
func (g *gate) answers(f *frame) {
	body := f.bytes[lengthSize:]
	f.judged = true
	if !g.greeted {
		g.greeted = true
		f.op = zkwire.OpConnect
		if r, err := zkwire.ParseConnectResponse(body); err == nil {
			g.session = r.Session
		}
		if len(g.inFlight) > 0 {
			f.rule = g.inFlight[0].rule
			g.inFlight = slices.Delete(g.inFlight, 0, 1)
		}
		return
	}
	h, _, err := zkwire.ParseReplyHeader(body)
	if err != nil {
		return
	}
	if h.Zxid > 0 {
		g.zxid = h.Zxid
	}
	if h.Xid == zkwire.XidNotification {
		f.judged = false
		return
	}
	i := slices.IndexFunc(g.inFlight, func(asked inquiry) bool { return asked.xid == h.Xid && asked.code == 0 })
	if i < 0 {
		return
	}
	f.op, f.rule = g.inFlight[i].op, g.inFlight[i].rule
	if h.Xid > 0 {
		g.overtake(i)
		return
	}
	g.inFlight = slices.Delete(g.inFlight, i, i+1)
}

// overtake removes a request that is answered, and those before it which the
// server, as it answers in order, will not answer any more.
func (g *gate) overtake(answered int) {
	var left []inquiry
	for _, asked := range g.inFlight[:answered] {
		switch {
		case asked.code != 0:
			g.fail(asked)
		case asked.xid <= 0:
			left = append(left, asked) // pings have an order of their own
		}
	}
	g.inFlight = slices.Replace(g.inFlight, 0, answered+1, left...)
}

// failNext answers the requests that a rule has failed and whose turn it is.
func (g *gate) failNext() {
	for len(g.inFlight) > 0 && g.inFlight[0].code != 0 {
		g.fail(g.inFlight[0])
		g.inFlight = slices.Delete(g.inFlight, 0, 1)
	}
}

func (g *gate) fail(asked inquiry) {
	header := zkwire.ReplyHeader{Xid: asked.xid, Zxid: g.zxid, Code: zkwire.Code(asked.code)}
	f := frame{
		bytes:  zkwire.EndFrame(header.Append(zkwire.BeginFrame(nil)), 0),
		at:     time.Now(),
		op:     asked.op,
		judged: true,
	}
	g.trace(&f, true, nil)
	g.out.push(f)
}

// opOf returns the operation of any request but the first; 0 if it cannot be
// read.
func opOf(body []byte) zkwire.Op {
	r, _, _ := zkwire.ParseHeader(body)
	return r.Op
}

// xidOf returns the number of a request. Connect requests have none.
func xidOf(f *frame) int32 {
	if f.op == zkwire.OpConnect {
		return 0
	}
	r, _, _ := zkwire.ParseHeader(f.bytes)
	return r.Xid
}

func requestOf(f *frame) Request {
	if f.op == zkwire.OpConnect {
		return Request{Op: Connect}
	}
	r, _ := zkwire.ParseRequest(f.bytes) // what cannot be read is the server's business
	return newRequest(&r)
}
