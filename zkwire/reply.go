package zkwire

// A ConnectResponse is the server's first frame.
type ConnectResponse struct {
	Timeout  int32 // milliseconds; 0: the session is over
	Session  int64
	Password []byte
	Old      bool // the client sent no read-only flag and wants none
}

// Append appends the response as a frame.
func (r ConnectResponse) Append(b []byte) []byte {
	start := len(b)
	b = BeginFrame(b)
	b = Int32(b, 0)
	b = Int32(b, r.Timeout)
	b = Int64(b, r.Session)
	b = Buffer(b, r.Password)
	if !r.Old {
		b = Bool(b, false)
	}
	return EndFrame(b, start)
}

// ParseConnectResponse reads the server's first frame.
func ParseConnectResponse(body []byte) (ConnectResponse, error) {
	d := NewDecoder(body)
	d.Int32()
	r := ConnectResponse{Timeout: d.Int32(), Session: d.Int64(), Password: d.Buffer()}
	r.Old = d.Rest() == 0
	return r, d.err
}

// A ReplyHeader begins every other frame of the server.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Code Code
}

// Append appends the header.
func (h ReplyHeader) Append(b []byte) []byte {
	return Int32(Int64(Int32(b, h.Xid), h.Zxid), int32(h.Code))
}

// ParseReplyHeader reads a header and returns the rest.
func ParseReplyHeader(body []byte) (ReplyHeader, []byte, error) {
	d := NewDecoder(body)
	h := ReplyHeader{Xid: d.Int32(), Zxid: d.Int64(), Code: Code(d.Int32())}
	if d.err != nil {
		return h, nil, d.err
	}
	return h, body[d.off:], nil
}

// connected is the state in which a client gets events.
const connected = 3

// AppendNotification appends the frame that tells of an event.
func AppendNotification(b []byte, t EventType, path string) []byte {
	start := len(b)
	b = BeginFrame(b)
	b = ReplyHeader{Xid: XidNotification, Zxid: -1}.Append(b)
	b = Int32(b, int32(t))
	b = Int32(b, connected)
	b = String(b, path)
	return EndFrame(b, start)
}

// ParseNotification reads what follows the header of a notification.
func ParseNotification(rest []byte) (t EventType, path string, err error) {
	d := NewDecoder(rest)
	t = EventType(d.Int32())
	d.Int32()
	path = d.String()
	return t, path, d.err
}

// MultiHeader appends what comes before each result of a transaction.
func MultiHeader(b []byte, op Op, done bool, code Code) []byte {
	return Int32(Bool(Int32(b, int32(op)), done), int32(code))
}
