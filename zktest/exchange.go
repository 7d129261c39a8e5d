package zktest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// An Exchange is a line of a trace: a frame that a client or the server has
// sent, or what a rule does with one.
type Exchange struct {
	At       time.Duration // since the server or proxy was made
	From     string        // names of the connection: listener, dialer
	Session  int64         // of the connection; of a new one 0 until it is granted
	ToClient bool          // which way the frame goes
	Rule     *Rule         // that acts on the frame; nil: the frame was sent

	op   zkwire.Op // of the request that the frame is, or answers
	body []byte
	text string // instead of a long body
}

// String returns the line, such as
//
//	+1.204s A 0x1000 → #5 create /locks/x (3 bytes)
func (e Exchange) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%+.3fs", e.At.Seconds())
	if e.From != "" {
		b.WriteString(" " + e.From)
	}
	fmt.Fprintf(b, " %#x ", uint64(e.Session))
	switch {
	case e.Rule != nil:
		b.WriteString("✂ ")
	case e.ToClient:
		b.WriteString("← ")
	default:
		b.WriteString("→ ")
	}
	if e.text != "" {
		b.WriteString(e.text)
	} else {
		b.WriteString(describe(e.op, e.body, e.ToClient))
	}
	if e.Rule != nil {
		b.WriteString(": " + e.Rule.String())
	}
	return b.String()
}

const (
	traceLength = 4096 // exchanges kept
	traceBody   = 1024 // bytes kept of each; of longer ones the text
)

// A trace keeps the last exchanges.
type trace struct {
	start time.Time

	mu   sync.Mutex
	kept []Exchange // a ring, once it is full
	next int        // where the oldest is, then
}

func newTrace() *trace { return &trace{start: time.Now()} }

func (t *trace) add(at time.Time, e Exchange) {
	e.At = at.Sub(t.start)
	if len(e.body) > traceBody {
		e.text = describe(e.op, e.body, e.ToClient)
		e.body = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) < traceLength {
		t.kept = append(t.kept, e)
		return
	}
	t.kept[t.next] = e
	t.next = (t.next + 1) % traceLength
}

// all returns the exchanges, the oldest first.
func (t *trace) all() []Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Exchange, 0, len(t.kept))
	list = append(list, t.kept[t.next:]...)
	return append(list, t.kept[:t.next]...)
}

func (f *faults) exchanges() []Exchange { return f.trace.all() }

func fromText(names []string) string { return strings.Join(names, ",") }
