package zkwire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestLengthsThatCannotBeAreRefusedBeforeAnythingIsAllocated(t *testing.T) {
	for name, read := range map[string]func(*Decoder){
		"buffer":  func(d *Decoder) { d.Buffer() },
		"string":  func(d *Decoder) { _ = d.String() },
		"strings": func(d *Decoder) { d.Strings() },
		"acls":    func(d *Decoder) { d.ACLs() },
	} {
		for _, n := range []int32{1 << 30, MaxFrame + 1, 5} {
			d := NewDecoder(append(Int32(nil, n), 1, 2, 3))
			read(d)
			require.ErrorIs(t, d.Err(), ErrMalformed, "%s of %d", name, n)
		}
	}
	require.Empty(t, NewDecoder(Int32(nil, -2)).Strings())
	require.NotNil(t, NewDecoder(Int32(nil, -2)).Strings(), "to Java that is no null")
	d := NewDecoder(Int32(nil, -2))
	d.Buffer()
	require.ErrorIs(t, d.Err(), ErrMalformed)
	d = NewDecoder(nil)
	d.Int64()
	d.Bool()
	require.Zero(t, d.Int32())
	require.ErrorContains(t, d.Err(), "long at byte 0 of 0", "the first error stays")
}

// go-zookeeper knows no null of a string or of a list: a client that took one for nothing would see an empty lock.
func TestRawStringsAndListsAreNeverNull(t *testing.T) {
	for name, read := range map[string]func(*Decoder) any{
		"string":  func(d *Decoder) any { return d.RawString() },
		"strings": func(d *Decoder) any { return d.RawStrings() },
	} {
		for _, n := range []int32{-1, -7, 5, MaxFrame + 1} {
			d := NewDecoder(append(Int32(nil, n), 1, 2, 3))
			require.Empty(t, read(d))
			require.ErrorIs(t, d.Err(), ErrMalformed, "%s of %d", name, n)
		}
		d := NewDecoder(Int32(nil, 0))
		require.Empty(t, read(d))
		require.NoError(t, d.Err(), name)
	}
	d := NewDecoder(Int32(Int32(nil, 1), -1))
	require.Empty(t, d.RawStrings())
	require.ErrorIs(t, d.Err(), ErrMalformed, "a null in a list")
	whole := RawString(RawString(Int32(nil, 2), "a\xff"), "\U0001F512")
	require.Equal(t, []string{"a\xff", "\U0001F512"}, NewDecoder(whole).RawStrings(), "as they were sent")
}

// FuzzRequest: no bytes of a client break the decoder, or make it allocate
// more than a multiple of them.
func FuzzRequest(f *testing.F) {
	for op := Op(-11); op < 110; op++ {
		f.Add(append(Int32(Int32(nil, 1), int32(op)), make([]byte, 40)...))
	}
	multi := Int32(Int32(nil, 1), int32(OpMulti))
	multi = Int32(String(MultiHeader(multi, OpDelete, false, -1), "/a"), -1)
	f.Add(MultiHeader(multi, OpError, true, -1))
	f.Add(Strings(Strings(Strings(Int64(Int32(Int32(nil, -8), int32(OpSetWatches)), 1), []string{"/a"}), nil), []string{"/b"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		r, err := ParseRequest(body)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
		}
		require.LessOrEqual(t, len(r.Ops), len(body))
		require.LessOrEqual(t, len(r.ACL), len(body))
		r.Paths()
		_, _ = ParseConnect(body)
		_, _ = ParseConnectResponse(body)
		if _, rest, err := ParseReplyHeader(body); err == nil {
			_, _, _ = ParseNotification(rest)
		}
		require.Equal(t, before, body, "it only reads")
	})
}

// FuzzFrames: what the encoder writes the decoder reads, and a frame that is cut
// off anywhere is malformed.
func FuzzFrames(f *testing.F) {
	f.Add(int32(1), int64(2), int64(3), []byte("x"), "/a", true, uint8(3))
	f.Add(int32(-1), int64(-1), int64(0), []byte(nil), "", false, uint8(0))
	f.Fuzz(func(t *testing.T, n int32, zxid, session int64, data []byte, path string, flag bool, cut uint8) {
		path = text([]byte(path)) // what is no UTF-8 comes as something else
		basic := utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r > 0xffff })
		connect := ConnectResponse{Timeout: n, Session: session, Password: data, Old: flag}
		frame := connect.Append(nil)
		require.Equal(t, int32(len(frame)-4), NewDecoder(frame).Int32())
		got, err := ParseConnectResponse(frame[4:])
		require.NoError(t, err)
		require.Equal(t, connect, got)

		h, rest, err := ParseReplyHeader(ReplyHeader{Xid: n, Zxid: zxid, Code: Code(n)}.Append(nil))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, ReplyHeader{Xid: n, Zxid: zxid, Code: Code(n)}, h)

		_, rest, err = ParseReplyHeader(AppendNotification(nil, EventType(n), path)[4:])
		require.NoError(t, err)
		kind, told, err := ParseNotification(rest)
		require.NoError(t, err)
		require.Equal(t, EventType(n), kind)
		if basic {
			require.Equal(t, path, told)
		}

		op := Int32(Int32(nil, n), int32(OpSetData))
		op = Int32(Buffer(String(op, path), data), n)
		r, err := ParseRequest(op)
		require.NoError(t, err)
		require.Equal(t, data, r.Data)
		require.Equal(t, n, r.Version)
		if basic {
			require.Equal(t, path, r.Path)
		}
		_, err = ParseRequest(op[:len(op)-1-int(cut)%4])
		require.ErrorIs(t, err, ErrMalformed)

		acl := []ACL{{Perms: n, ID: ID{Scheme: "world", Name: "anyone"}}}
		d := NewDecoder(Strings(ACLs(nil, acl), []string{"a", "", "b"}))
		require.Equal(t, acl, d.ACLs())
		require.Equal(t, []string{"a", "", "b"}, d.Strings())
		require.NoError(t, d.Err())
		require.Zero(t, d.Rest())
	})
}
