package priority

import "fmt"

// A Mode says with whom a holder shares the lock.
type Mode uint8

const (
	// Exclusive holders have the lock alone. The default.
	Exclusive Mode = iota

	// Shared holders have the lock together with other shared ones.
	Shared
)

// Admits reports whether holders in the modes m and o may have the lock at the
// same time: only if both are shared.
func (m Mode) Admits(o Mode) bool { return m == Shared && o == Shared }

// String returns "exclusive" or "shared", the text that ParseMode reads.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode reads "exclusive" or "shared". Anything else, the empty text
// included, is a *RequestError.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "exclusive":
		return Exclusive, nil
	case "shared":
		return Shared, nil
	}
	return Exclusive, &RequestError{Field: "mode", Reason: fmt.Sprintf("%q is unknown; write exclusive or shared", s)}
}

// MarshalText writes what String returns. A Mode that is neither Exclusive nor
// Shared is an error.
func (m Mode) MarshalText() ([]byte, error) {
	if m != Exclusive && m != Shared {
		return nil, fmt.Errorf("mode %d is unknown; use Exclusive or Shared", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads what ParseMode reads. On an error m is left as it was.
func (m *Mode) UnmarshalText(text []byte) error {
	parsed, err := ParseMode(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}
