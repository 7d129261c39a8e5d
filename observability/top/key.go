package top

import "unicode/utf8"

// A Key is what somebody pressed.
type Key struct {
	Is   KeyKind
	Rune rune // of a Letter
}

// A KeyKind is which key it is.
type KeyKind int

// The keys that mean something.
const (
	Letter KeyKind = iota // Rune
	Up
	Down
	Left
	Right
	PageUp
	PageDown
	Home
	End
	Enter
	Esc
	Backspace
	Interrupt // Ctrl-C
	Erase     // Ctrl-U: all that was typed
	Redraw    // Ctrl-L
)

// A Keyboard makes keys of what a terminal sends. The zero value is ready.
type Keyboard struct{ rest []byte }

// longest is how long a sequence of a terminal may be. What is longer is none.
const longest = 32

// Type returns the keys in what was read. What may go on stays, see Pending.
func (k *Keyboard) Type(read []byte) (keys []Key) {
	k.rest = append(k.rest, read...)
	for len(k.rest) > 0 {
		key, used, known := next(k.rest)
		if used == 0 {
			if len(k.rest) < longest {
				return keys
			}
			used = 1 // it goes on for too long
		}
		k.rest = k.rest[used:]
		if known {
			keys = append(keys, key)
		}
	}
	return keys
}

// Pending reports whether a sequence has begun: an Esc that is followed by nothing
// is the key of that name.
func (k *Keyboard) Pending() bool { return len(k.rest) > 0 }

// Settle returns what has begun as it is: nothing follows.
func (k *Keyboard) Settle() (keys []Key) {
	if len(k.rest) > 0 && k.rest[0] == escape {
		keys = append(keys, Key{Is: Esc})
	}
	k.rest = nil
	return keys
}

const escape = 0x1b

// next decodes the first key; used 0: it may go on.
func next(b []byte) (key Key, used int, known bool) {
	switch c := b[0]; {
	case c == escape:
		return sequence(b)
	case c < ' ' || c == 0x7f:
		key, known = control(c)
		return key, 1, known
	case !utf8.FullRune(b):
		return key, 0, false
	}
	r, size := utf8.DecodeRune(b)
	return Key{Rune: r}, size, r != utf8.RuneError
}

func control(c byte) (Key, bool) {
	switch c {
	case '\r', '\n':
		return Key{Is: Enter}, true
	case 0x7f, '\b':
		return Key{Is: Backspace}, true
	case 0x03:
		return Key{Is: Interrupt}, true
	case 0x15:
		return Key{Is: Erase}, true
	case 0x0c:
		return Key{Is: Redraw}, true
	case 0x0e:
		return Key{Is: Down}, true // Ctrl-N
	case 0x10:
		return Key{Is: Up}, true // Ctrl-P
	case 0x06:
		return Key{Is: PageDown}, true // Ctrl-F
	case 0x02:
		return Key{Is: PageUp}, true // Ctrl-B
	}
	return Key{}, false
}

// sequence decodes what begins with Esc: CSI (Esc [) and SS3 (Esc O) sequences.
// An Esc before anything else is the key.
func sequence(b []byte) (key Key, used int, known bool) {
	if len(b) == 1 {
		return key, 0, false
	}
	switch b[1] {
	case 'O':
		if len(b) == 2 {
			return key, 0, false
		}
		key, known = arrow(b[2])
		return key, 3, known
	case '[':
	case escape:
		return Key{Is: Esc}, 1, true
	default:
		return Key{Is: Esc}, 1, true
	}
	for i := 2; i < len(b); i++ {
		switch c := b[i]; {
		case c >= 0x40 && c <= 0x7e: // the last byte
			if c == '~' {
				key, known = numbered(string(b[2:i]))
			} else {
				key, known = arrow(c)
			}
			return key, i + 1, known
		case c < 0x20 || c > 0x7e: // no part of a sequence
			return key, i, false
		}
	}
	return key, 0, false
}

func arrow(c byte) (Key, bool) {
	is, known := map[byte]KeyKind{'A': Up, 'B': Down, 'C': Right, 'D': Left, 'H': Home, 'F': End, 'M': Enter}[c]
	return Key{Is: is}, known
}

func numbered(n string) (Key, bool) {
	is, known := map[string]KeyKind{"1": Home, "7": Home, "4": End, "8": End, "5": PageUp, "6": PageDown}[n]
	return Key{Is: is}, known
}
