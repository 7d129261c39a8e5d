package zkclient

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// frameReader cuts a byte stream into frames, shows the first bytes of each, and
// blanks the zxid of each reply.
type frameReader struct {
	greeting bool // the next frame is the connect response
	head     [40]byte
	have     int // bytes of length and head gathered so far
	rest     int // bytes of the frame that are still to come, once the head is shown
}

// between reports whether what comes next is the beginning of a frame, and not
// the greeting.
func (f *frameReader) between() bool { return f.have == 0 && f.rest == 0 && !f.greeting }

func (f *frameReader) feed(b []byte, show func(head []byte, greeting bool)) error {
	for len(b) > 0 {
		if f.rest > 0 {
			n := min(f.rest, len(b))
			f.rest -= n
			b = b[n:]
			continue
		}
		want := 4
		length := 0
		if f.have >= 4 {
			length = int(binary.BigEndian.Uint32(f.head[:4]))
			want = 4 + min(length, f.headSize())
		}
		n := min(want-f.have, len(b))
		copy(f.head[f.have:], b[:n])
		if !f.greeting {
			f.blankZxid(b[:n])
		}
		f.have += n
		b = b[n:]
		if f.have < want {
			return nil
		}
		if want == 4 {
			if err := f.check(int(binary.BigEndian.Uint32(f.head[:4]))); err != nil {
				return err
			}
			continue
		}
		head := f.head[4:f.have]
		if f.greeting && binary.BigEndian.Uint64(head[8:]) != 0 && int32(binary.BigEndian.Uint32(head[4:])) <= 0 {
			return fmt.Errorf("it offers a session without a timeout: %w", errGarbled) // on which the library would panic
		}
		show(head, f.greeting)
		f.greeting = false
		f.rest = length - len(head)
		f.have = 0
	}
	return nil
}

// blankZxid clears what of the zxid is in b, which continues the head.
func (f *frameReader) blankZxid(b []byte) {
	const from, till = 8, 16 // behind length and xid
	clear(b[min(max(from-f.have, 0), len(b)):min(max(till-f.have, 0), len(b))])
}

// check refuses a frame that is too short for the library, which would panic, or so long that none is.
func (f *frameReader) check(length int) error {
	most := maxReply
	if f.greeting {
		most = maxGreeting
	}
	if length < f.headSize() || length > most {
		return fmt.Errorf("a message of %d bytes: %w", length, errGarbled)
	}
	return nil
}

// headSize is what header needs: a reply header, or a whole connect response.
func (f *frameReader) headSize() int {
	if f.greeting {
		return 36
	}
	return replyHeader
}

// maxGreeting is how many bytes a greeting may have: it has 37.
const maxGreeting = 256

// errGarbled ends a connection: it is unknown where the next message begins.
var errGarbled = errors.New(
	"this is another protocol than ZooKeeper's; check the address, and whether the server expects TLS")
