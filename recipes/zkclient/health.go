package zkclient

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Health is how a client and ZooKeeper get on at one moment.
type Health struct {
	State SessionState

	// Timeout is the session timeout: negotiated or, before that, asked for.
	Timeout time.Duration

	// Left is how long what is held is safe if ZooKeeper is silent from now on. 0
	// without a session, and when it has been silent for too long.
	Left time.Duration

	// Expirations counts sessions that have ended against the client's will.
	Expirations uint64

	// Reconnects counts connections that could be used, after the first one.
	Reconnects uint64

	// Err is what went wrong last, nil while the client is connected.
	Err error
}

// SessionState says what the session of a client can be used for.
type SessionState string

// The states of a session.
const (
	SessionConnecting SessionState = "connecting" // there is none yet, or none any more
	SessionConnected  SessionState = "connected"
	SessionSuspended  SessionState = "suspended" // no server answers; the session may live on
	SessionClosed     SessionState = "closed"    // by Close
)

// SessionStates returns all there are.
func SessionStates() []SessionState {
	return []SessionState{SessionConnecting, SessionConnected, SessionSuspended, SessionClosed}
}

// Health sends no request: it returns what is known.
func (c *Client) Health() Health {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{State: SessionConnecting, Timeout: s.timeout, Expirations: c.expirations.Load(), Err: s.lastErr}
	if n := c.connections.Load(); n > 0 {
		h.Reconnects = n - 1
	}
	switch {
	case c.IsClosing():
		h.State = SessionClosed
	case s.overErr != nil || s.id == 0:
	case s.isReady:
		h.State, h.Err = SessionConnected, nil
	default:
		h.State = SessionSuspended
	}
	if s.id != 0 && s.overErr == nil {
		h.Left = max(0, s.deadlineLocked().Sub(s.clock.now()))
	}
	return h
}

// Operation is one request to ZooKeeper that has ended.
type Operation struct {
	Name   string // get, set, multi and so on: one of OperationNames
	Result OperationResult
	Took   time.Duration // from when it was sent to the answer, or to when the connection was given up
}

// OperationResult says how a request to ZooKeeper ended.
type OperationResult string

// The results of operations.
const (
	OperationOK OperationResult = "ok"
	// with an error, such as that there is no such node: often the answer that was looked for
	OperationRefused OperationResult = "refused"
	OperationLost    OperationResult = "lost" // the connection ended before the answer
)

// OperationResults returns all there are.
func OperationResults() []OperationResult {
	return []OperationResult{OperationOK, OperationRefused, OperationLost}
}

// OnOperation has f called for every request to ZooKeeper that has ended, pings
// too. It replaces an earlier f; nil: no function is called. f is called while
// the client reads the next answer: it has to return at once, and must not use
// the client.
func (c *Client) OnOperation(f func(Operation)) {
	if f == nil {
		c.operations.Store(nil)
		return
	}
	c.operations.Store(&f)
}

// tell is for a request that was sent at some time; without a listener it costs
// an atomic load.
func (c *Client) tell(op zkwire.Op, sent, now Instant, result OperationResult) {
	if f := c.operations.Load(); f != nil && op != zkwire.OpCloseSession {
		(*f)(Operation{Name: operationName(op), Result: result, Took: max(0, now.Sub(sent))})
	}
}

// OperationNames returns the names of operations.
func OperationNames() []string {
	return []string{
		"acl", "check", "children", "create", "delete", "exists", "get", "multi", "other", "ping", "set", "sync",
	}
}

func operationName(op zkwire.Op) string {
	switch op {
	case zkwire.OpGetACL, zkwire.OpSetACL:
		return "acl"
	case zkwire.OpCheck:
		return "check"
	case zkwire.OpGetChildren, zkwire.OpGetChildren2:
		return "children"
	case zkwire.OpCreate, zkwire.OpCreate2:
		return "create"
	case zkwire.OpDelete:
		return "delete"
	case zkwire.OpExists:
		return "exists"
	case zkwire.OpGetData:
		return "get"
	case zkwire.OpMulti:
		return "multi"
	case zkwire.OpPing:
		return "ping"
	case zkwire.OpSetData:
		return "set"
	case zkwire.OpSync:
		return "sync"
	}
	return "other"
}
