package zkdiff

import (
	"encoding/binary"
	"errors"
)

// null is a string that is not there: the wire's length -1. No other string begins with this byte.
const null = "\xffnull"

// encoder writes ZooKeeper's jute encoding.
type encoder struct{ buf []byte }

func (e *encoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *encoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.buf = append(e.buf, 1)
		return
	}
	e.buf = append(e.buf, 0)
}

// bytes writes a buffer; nil is null.
func (e *encoder) bytes(v []byte) {
	if v == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) string(v string) {
	if v == null {
		e.int32(-1)
		return
	}
	e.bytes(append([]byte{}, v...))
}

// strings writes a list; nil is null.
func (e *encoder) strings(v []string) {
	if v == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

// acl writes a list; nil is null.
func (e *encoder) acl(v []ACL) {
	if v == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(v)))
	for _, a := range v {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

var errShort = errors.New("the frame ends too early")

// decoder reads ZooKeeper's jute encoding. After the first error everything is zero.
type decoder struct {
	buf []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.buf)) {
		d.err = errShort
	}
	if d.err != nil {
		return nil
	}
	taken := d.buf[:n]
	d.buf = d.buf[n:]
	return taken
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	if b != nil && b[0] > 1 {
		d.err = errors.New("a boolean that is neither 0 nor 1")
	}
	return b != nil && b[0] == 1
}

// bytes reads a buffer; null is nil.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n == -1 || d.err != nil {
		return nil
	}
	return append([]byte{}, d.take(int(n))...)
}

func (d *decoder) string() string {
	b := d.bytes()
	if b == nil {
		return null
	}
	return string(b)
}

// strings reads a list; null is nil.
func (d *decoder) strings() []string {
	n := d.int32()
	if n == -1 {
		return nil
	}
	list := []string{}
	for i := int32(0); i < n && d.err == nil; i++ {
		list = append(list, d.string())
	}
	return list
}

// acl reads a list; null is nil.
func (d *decoder) acl() []ACL {
	n := d.int32()
	if n == -1 {
		return nil
	}
	list := []ACL{}
	for i := int32(0); i < n && d.err == nil; i++ {
		list = append(list, ACL{Perms: d.int32(), Scheme: d.string(), ID: d.string()})
	}
	return list
}

type stat struct {
	czxid, mzxid, ctime, mtime  int64
	version, cversion, aversion int32
	owner                       int64
	length, children            int32
	pzxid                       int64
}

func (d *decoder) stat() stat {
	return stat{
		czxid: d.int64(), mzxid: d.int64(), ctime: d.int64(), mtime: d.int64(),
		version: d.int32(), cversion: d.int32(), aversion: d.int32(),
		owner: d.int64(), length: d.int32(), children: d.int32(), pzxid: d.int64(),
	}
}
