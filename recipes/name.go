package recipes

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
)

// maxScope is the longest escaped scope, in bytes: a node's name.
const maxScope = 200

// EscapeScope turns a scope into the name of its one node. It returns a
// *RequestError for a scope that is empty, too long or not printable, and for
// one that people would take for another: with an empty part between slashes, a
// slash at its ends, or white space at the ends of a part.
func EscapeScope(scope string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &RequestError{Field: "scope", Reason: fmt.Sprintf(format, args...)}
	}
	if scope == "" {
		return bad("is empty; write a path such as cluster/orders/resource/users")
	}
	if hasControl(scope) {
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

// tidy is what an untidy scope was meant to be; "" when nobody can tell.
func tidy(scope string) string {
	var parts []string
	for part := range strings.SplitSeq(scope, "/") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// unescapeScope is the inverse of EscapeScope.
func unescapeScope(name string) (string, bool) {
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

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		// What ZooKeeper refuses in a path, and what nobody can read.
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 || r == '\u2028' || r == '\u2029'
	})
}

// lockPath returns the lock node of an escaped scope: one of 256 buckets keeps
// any one child list short.
func lockPath(root, escaped string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(escaped))
	return fmt.Sprintf("%s/locks/%02x/%s", root, h.Sum32()&0xff, escaped)
}

// guidLength is that of a guid, in hex digits.
const guidLength = 24

// newGUID names one attempt. A name is never used again, so that a late reply
// or a stale watch of an earlier attempt cannot be taken for this one's.
func newGUID() string {
	var b [guidLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func isGUID(s string) bool {
	return len(s) == guidLength && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// newRequestGUID names one attempt of a request whose node is created with
// data. Its second half tells what that is: see requestCache.
func newRequestGUID(data []byte) string {
	var b [guidLength / 2]byte
	_, _ = rand.Read(b[:guidLength/4])
	sum := sha256.Sum256(data)
	copy(b[guidLength/4:], sum[:])
	return hex.EncodeToString(b[:])
}

// digest is the half of a guid that tells the data of the request's node.
func digest(guid string) string { return guid[guidLength/2:] }

// contenderName is the name of a contender's node without its sequence:
// <2147483647−priority>-<x|s>-<guid>-
func contenderName(level priority.Level, mode priority.Mode, guid string) string {
	m := byte('x')
	if mode == priority.Shared {
		m = 's'
	}
	return nodeName(level, m, guid)
}

// walkerName is that of a reader that walks in: <2147483647−priority>-w-<guid>-
func walkerName(level priority.Level, guid string) string { return nodeName(level, 'w', guid) }

func nodeName(level priority.Level, mode byte, guid string) string {
	const ten = 10_000_000_000 // for leading zeros
	b := make([]byte, 0, 1+10+3+guidLength+1)
	b = strconv.AppendInt(b, ten+math.MaxInt32-int64(level), 10)
	b = append(b, '-', mode, '-')
	b = append(b, guid...)
	return string(append(b, '-')[1:])
}

// position is where a contender stands in the queue: behind those of a higher level, and of its own level behind those
// with an earlier sequence.
type position struct {
	Level    priority.Level
	Sequence int32 // counts the requests for this lock; may wrap
}

// child is a contender as its node's name tells it.
type child struct {
	name  string
	guid  string
	place position
	mode  priority.Mode

	walked bool // it came to hold by walking in: as long as it is there, it holds
}

func (c child) level() priority.Level { return c.place.Level }

// parseChild reads a contender's name; it reports false for a foreign one.
func parseChild(name string) (child, bool) {
	const head = 10 + 1 + 1 + 1 // digits-mode-
	if len(name) < head+guidLength+2 || name[10] != '-' || name[12] != '-' || name[head+guidLength] != '-' {
		return child{}, false
	}
	rank, err := strconv.ParseUint(name[:10], 10, 32)
	if err != nil || rank > math.MaxInt32 {
		return child{}, false
	}
	seq, ok := parseSequence(name[head+guidLength+1:])
	if !ok {
		return child{}, false
	}
	c := child{name: name, guid: name[head : head+guidLength]}
	switch name[11] {
	case 'x':
		c.mode = priority.Exclusive
	case 's':
		c.mode = priority.Shared
	case 'w':
		c.mode, c.walked = priority.Shared, true
	default:
		return child{}, false
	}
	if !isGUID(c.guid) {
		return child{}, false
	}
	c.place = position{Level: priority.Level(math.MaxInt32 - rank), Sequence: seq}
	return c, true
}

// parseChildren returns the contenders in the order in which they are served,
// and the names of what is none.
func parseChildren(names []string) (children []child, foreign []string) {
	children = make([]child, 0, len(names))
	for _, name := range names {
		if c, ok := parseChild(name); ok {
			children = append(children, c)
		} else {
			foreign = append(foreign, name)
		}
	}
	slices.SortFunc(children, func(a, b child) int {
		// planted-bug queue-without-priority: a.place.Level = b.place.Level
		return cmp.Or(cmp.Compare(b.place.Level, a.place.Level), compareSequence(a.place.Sequence, b.place.Sequence), strings.Compare(a.name, b.name))
	})
	for at := 0; at < len(children); {
		end := at + 1
		for end < len(children) && children[end].level() == children[at].level() {
			end++
		}
		unwrap(children[at:end], func(c child) int32 { return c.place.Sequence })
		at = end
	}
	return children, foreign
}

// parseSequence reads the sequence number of a node as ZooKeeper writes it: ten
// places, the sign included if there is room; negative after a wrap.
func parseSequence(digits string) (int32, bool) {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || len(digits) < 10 || digits[0] == '+' {
		return 0, false
	}
	return int32(n), len(digits) == 10 || n <= -1_000_000_000 && len(digits) == 11
}

// compareSequence orders sequence numbers as they are given out, from 0 on to
// the last negative one.
func compareSequence(a, b int32) int { return cmp.Compare(uint32(a), uint32(b)) }

// unwrap makes an order out of a round: what is sorted by compareSequence
// begins behind the longest stretch of numbers that nobody has. Where all were
// given out within 2³¹ of each other the earliest is first, as the difference of
// any two says. Numbers that are further apart are foreign; with them differences
// make no order, and this makes one that everybody finds who sees the same.
func unwrap[T any](sorted []T, number func(T) int32) {
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
