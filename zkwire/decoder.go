package zkwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxFrame is the largest body of a frame that a server reads (ZooKeeper's
// jute.maxbuffer, its default).
const MaxFrame = 0xfffff

// ErrMalformed is wrapped by every error of a Decoder.
var ErrMalformed = errors.New("malformed")

// A Decoder reads jute. After its first error it returns zero values; Err
// tells what went wrong.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder returns a Decoder that reads b. What it returns does not alias b,
// except for the buffers of Buffer.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Rest returns the number of bytes that were not read yet.
func (d *Decoder) Rest() int { return len(d.b) - d.off }

func (d *Decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s at byte %d of %d", ErrMalformed, what, d.off, len(d.b))
	}
}

func (d *Decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.Rest() {
		d.fail(what)
		return nil
	}
	b := d.b[d.off : d.off+n]
	d.off += n
	return b
}

// Bool reads a boolean: as in Java, every byte but 0 is true.
func (d *Decoder) Bool() bool {
	b := d.take(1, "boolean")
	return b != nil && b[0] != 0
}

// Int32 reads an int.
func (d *Decoder) Int32() int32 {
	b := d.take(4, "int")
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// Int64 reads a long.
func (d *Decoder) Int64() int64 {
	b := d.take(8, "long")
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// Buffer reads bytes. Null, which is another value than empty, is nil.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if d.err != nil || n == -1 {
		return nil
	}
	b := d.take(int(n), "buffer")
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// String reads a string. Null is "": see NullString.
func (d *Decoder) String() string {
	s, _ := d.NullString()
	return s
}

// NullString reads a string that may be null.
func (d *Decoder) NullString() (s string, null bool) {
	n := d.Int32()
	if d.err != nil || n == -1 {
		return "", d.err == nil
	}
	return text(d.take(int(n), "string")), false
}

// RawString reads a string as the bytes that were sent, as go-zookeeper does: where that has one, there is no null.
func (d *Decoder) RawString() string { return string(d.take(int(d.Int32()), "string")) }

// Stat reads a Stat.
func (d *Decoder) Stat() Stat {
	return Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(), Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(), DataLength: d.Int32(), NumChildren: d.Int32(), Pzxid: d.Int64(),
	}
}

// count reads the length of a list, of elements that have at least size bytes.
// Null is -1; whatever is less is an empty list to Java.
func (d *Decoder) count(size int) int {
	n := int(d.Int32())
	if d.err != nil {
		return 0
	}
	if n > d.Rest()/size {
		d.fail("unreasonable count")
		return 0
	}
	if n < -1 {
		return 0
	}
	return n
}

// Strings reads a list of strings; null is nil, empty is not.
func (d *Decoder) Strings() []string {
	n := d.count(4)
	if n < 0 || d.err != nil {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.String())
	}
	if d.err != nil {
		return nil
	}
	return list
}

// RawStrings reads a list of strings as they were sent: see RawString.
func (d *Decoder) RawStrings() []string {
	n := int(d.Int32())
	if n < 0 || n > d.Rest()/4 {
		d.fail("unreasonable count")
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.RawString())
	}
	if d.err != nil {
		return nil
	}
	return list
}

// ACLs reads an access control list; null is nil.
func (d *Decoder) ACLs() []ACL {
	n := d.count(12)
	if n <= 0 {
		return nil
	}
	list := make([]ACL, 0, n)
	for range n {
		perms := d.Int32()
		scheme, noScheme := d.NullString()
		id, noID := d.NullString()
		list = append(list, ACL{Perms: perms, ID: ID{Scheme: scheme, Name: id}, NullScheme: noScheme, NullName: noID})
	}
	if d.err != nil {
		return nil
	}
	return list
}
