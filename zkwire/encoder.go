package zkwire

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Int32 appends an int.
func Int32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// Int64 appends a long.
func Int64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// Bool appends a boolean.
func Bool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Buffer appends bytes; nil is null.
func Buffer(b, v []byte) []byte {
	if v == nil {
		return Int32(b, -1)
	}
	return append(Int32(b, int32(len(v))), v...)
}

// String appends a string. Characters beyond U+FFFF are written as ZooKeeper
// does it, as two surrogates of three bytes each (CESU-8).
func String(b []byte, v string) []byte {
	if strings.IndexFunc(v, func(r rune) bool { return r > 0xffff }) < 0 {
		return append(Int32(b, int32(len(v))), v...)
	}
	var units []byte
	for _, r := range v {
		if r <= 0xffff {
			units = utf8.AppendRune(units, r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		for _, unit := range []rune{high, low} {
			units = append(units, 0xe0|byte(unit>>12), 0x80|byte(unit>>6&0x3f), 0x80|byte(unit&0x3f))
		}
	}
	return append(Int32(b, int32(len(units))), units...)
}

// RawString appends a string as it is, as go-zookeeper does.
func RawString(b []byte, v string) []byte { return append(Int32(b, int32(len(v))), v...) }

// Strings appends a list of strings.
func Strings(b []byte, v []string) []byte {
	b = Int32(b, int32(len(v)))
	for _, s := range v {
		b = String(b, s)
	}
	return b
}

// ACLs appends an access control list.
func ACLs(b []byte, v []ACL) []byte {
	b = Int32(b, int32(len(v)))
	for _, a := range v {
		b = Int32(b, a.Perms)
		b = String(b, a.ID.Scheme)
		b = String(b, a.ID.Name)
	}
	return b
}

// AppendStat appends a Stat.
func AppendStat(b []byte, s Stat) []byte {
	b = Int64(b, s.Czxid)
	b = Int64(b, s.Mzxid)
	b = Int64(b, s.Ctime)
	b = Int64(b, s.Mtime)
	b = Int32(b, s.Version)
	b = Int32(b, s.Cversion)
	b = Int32(b, s.Aversion)
	b = Int64(b, s.EphemeralOwner)
	b = Int32(b, s.DataLength)
	b = Int32(b, s.NumChildren)
	return Int64(b, s.Pzxid)
}

// BeginFrame appends room for the length of a frame; EndFrame fills it in.
func BeginFrame(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// EndFrame closes the frame that begins at start.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
