package znode

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
)

// maxScope is the longest escaped scope, in bytes: a node's name.
const maxScope = 200

// EscapeScope turns a scope into the name of its one node. It returns a
// *priority.RequestError for a scope that is empty, too long or not printable, and for
// one that people would take for another: with an empty part between slashes, a
// slash at its ends, or white space at the ends of a part.
func EscapeScope(scope string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &priority.RequestError{Field: "scope", Reason: fmt.Sprintf(format, args...)}
	}
	if scope == "" {
		return bad("is empty; write a path such as cluster/orders/resource/users")
	}
	if words.HasControl(scope) {
		return bad("%q contains a control character or invalid UTF-8; write printable characters", scope)
	}
	if what := untidy(scope); what != "" {
		instead := "a path such as cluster/orders/resource/users"
		if meant := tidy(scope); meant != "" {
			instead = strconv.Quote(meant)
		}
		return bad("%q %s; write %s", scope, what, instead)
	}
	name := escaper.Replace(scope)
	if strings.Trim(name, ".") == "" || name == "zookeeper" {
		name = strings.Replace(name, name[:1], fmt.Sprintf("%%%02X", name[0]), 1)
	}
	if len(name) > maxScope {
		return bad("%q takes %d bytes (a slash counts as 3); the limit is %d", scope, len(name), maxScope)
	}
	return name, nil
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")

// untidy says how a scope differs from the one that it would be taken for, and
// where; "" if it does not.
func untidy(scope string) string {
	before, _, gap := strings.Cut(scope, "//")
	switch {
	case strings.TrimSpace(scope) == "":
		return "is nothing but white space"
	case scope[0] == '/':
		return "begins with a slash"
	case scope[len(scope)-1] == '/':
		return "ends with a slash"
	case gap:
		return fmt.Sprintf("has an empty part after %q", before)
	case strings.TrimSpace(scope) != scope:
		return "has white space at its ends"
	}
	for part := range strings.SplitSeq(scope, "/") {
		if strings.TrimSpace(part) != part {
			return fmt.Sprintf("has white space at the ends of its part %q", part)
		}
	}
	return ""
}

// tidy is what an untidy scope was meant to be; "" when that is unknown.
func tidy(scope string) string {
	var parts []string
	for part := range strings.SplitSeq(scope, "/") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// UnescapeScope is the inverse of EscapeScope.
func UnescapeScope(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		n, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	scope := b.String()
	again, err := EscapeScope(scope)
	return scope, err == nil && again == name
}

// GUIDLength is that of a guid, in hex digits.
const GUIDLength = 24

// NewGUID names one attempt. A name is never used again, so that a late reply
// or a stale watch of an earlier attempt cannot be taken for this one's.
func NewGUID() string {
	var b [GUIDLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// IsGUID reports whether NewGUID could have made it.
func IsGUID(s string) bool {
	return len(s) == GUIDLength && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// ParseSequence reads the sequence number of a node as ZooKeeper writes it: ten
// places, the sign included if there is room; negative after a wrap. It reports
// false for any other spelling, so that two names never have one number.
func ParseSequence(digits string) (int32, bool) {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || len(digits) < 10 || digits[0] == '+' || n == 0 && digits[0] == '-' {
		return 0, false
	}
	return int32(n), len(digits) == 10 || n <= -1_000_000_000 && len(digits) == 11
}

// CompareSequence orders sequence numbers as they are given out, from 0 on to
// the last negative one.
func CompareSequence(a, b int32) int { return cmp.Compare(uint32(a), uint32(b)) }

// Unwrap makes an order out of a round: what is sorted by CompareSequence
// begins behind the longest stretch of unused numbers. Where all were given out
// within 2³¹ of each other the earliest is first, as the difference of any two
// says. Numbers that are further apart are foreign; with them differences make
// no order, and this makes one that every client finds that sees the same.
func Unwrap[T any](sorted []T, number func(T) int32) {
	if len(sorted) < 2 || uint32(number(sorted[len(sorted)-1]))-uint32(number(sorted[0])) < math.MaxInt32 {
		return
	}
	first, longest := 0, uint32(0)
	for i := range sorted {
		before := sorted[(i+len(sorted)-1)%len(sorted)]
		if gap := uint32(number(sorted[i])) - uint32(number(before)); gap > longest {
			first, longest = i, gap
		}
	}
	rotated := slices.Concat(sorted[first:], sorted[:first])
	copy(sorted, rotated)
}
