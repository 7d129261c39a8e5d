package lock

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
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// lockPath returns the lock node of an escaped scope: one of 256 buckets keeps
// any one child list short.
func lockPath(root, escaped string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(escaped))
	return fmt.Sprintf("%s/locks/%02x/%s", root, h.Sum32()&0xff, escaped)
}

// newRequestGUID names one attempt of a request whose node is created with
// data. Its second half tells what that is: see requestCache.
func newRequestGUID(data []byte) string {
	var b [znode.GUIDLength / 2]byte
	_, _ = rand.Read(b[:znode.GUIDLength/4])
	sum := sha256.Sum256(data)
	copy(b[znode.GUIDLength/4:], sum[:])
	return hex.EncodeToString(b[:])
}

// digest is the half of a guid that tells the data of the request's node.
func digest(guid string) string { return guid[znode.GUIDLength/2:] }

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
	b := make([]byte, 0, 1+10+3+znode.GUIDLength+1)
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
	if len(name) < head+znode.GUIDLength+2 || name[10] != '-' || name[12] != '-' || name[head+znode.GUIDLength] != '-' {
		return child{}, false
	}
	rank, err := strconv.ParseUint(name[:10], 10, 32)
	if err != nil || rank > math.MaxInt32 {
		return child{}, false
	}
	seq, ok := znode.ParseSequence(name[head+znode.GUIDLength+1:])
	if !ok {
		return child{}, false
	}
	c := child{name: name, guid: name[head : head+znode.GUIDLength]}
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
	if !znode.IsGUID(c.guid) {
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
		return cmp.Or(cmp.Compare(b.place.Level, a.place.Level), znode.CompareSequence(a.place.Sequence, b.place.Sequence),
			strings.Compare(a.name, b.name))
	})
	for at := 0; at < len(children); {
		end := at + 1
		for end < len(children) && children[end].level() == children[at].level() {
			end++
		}
		znode.Unwrap(children[at:end], func(c child) int32 { return c.place.Sequence })
		at = end
	}
	return children, foreign
}
