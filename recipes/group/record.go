package group

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// --- the spec ------------------------------------------------------------------

// specRecord is the data of a group's node.
type specRecord struct {
	Format         int                `json:"format"`
	Name           string             `json:"name"`
	Locks          []string           `json:"locks"`
	Holders        int                `json:"holders"`
	Limit          int                `json:"limit,omitempty"`
	Strategy       string             `json:"strategy"`
	CleanupTimeout int64              `json:"cleanup_timeout_us"`
	Debounce       int64              `json:"debounce_us"`
	MaxMoves       int                `json:"max_moves,omitempty"`
	Participants   []string           `json:"participants,omitempty"`
	Weights        map[string]float64 `json:"weights,omitempty"`
	Pins           map[string]string  `json:"pins,omitempty"`
	Zones          map[string]string  `json:"zones,omitempty"`
}

// encode writes a spec that is complete, always in the same way.
func (spec *Spec) encode() []byte {
	return znode.Encode(specRecord{
		Format: znode.RecordFormat, Name: spec.Name, Locks: spec.Locks, Holders: spec.Holders, Limit: spec.Limit,
		Strategy: spec.Strategy, CleanupTimeout: spec.CleanupTimeout.Microseconds(), Debounce: spec.Debounce.Microseconds(),
		MaxMoves: spec.MaxMoves, Participants: spec.Participants, Weights: spec.Weights, Pins: spec.Pins, Zones: spec.Zones,
	})
}

func decodeSpec(data []byte) (Spec, error) {
	var r specRecord
	if err := znode.Decode(data, &r, &r.Format); err != nil {
		return Spec{}, err
	}
	return Spec{
		Name: r.Name, Locks: r.Locks, Holders: r.Holders, Limit: r.Limit, Strategy: r.Strategy,
		CleanupTimeout: time.Duration(r.CleanupTimeout) * time.Microsecond,
		Debounce:       time.Duration(r.Debounce) * time.Microsecond,
		MaxMoves:       r.MaxMoves, Participants: r.Participants, Weights: r.Weights, Pins: r.Pins, Zones: r.Zones,
	}, nil
}

// --- a participant ---------------------------------------------------------------

// memberRecord is the data of a participant's node. It alone writes it. What it
// has released once it never holds again, so that a participant that reads this
// late only knows less.
type memberRecord struct {
	Format   int                     `json:"format"`
	Name     string                  `json:"name"`
	Host     string                  `json:"host"`
	PID      int                     `json:"pid"`
	Leaving  bool                    `json:"leaving,omitempty"`
	Released map[lock.Token][]string `json:"released,omitempty"` // locks by the token of the grant
}

func decodeMember(data []byte) (r memberRecord, err error) {
	err = znode.Decode(data, &r, &r.Format)
	return r, err
}

// groupChild is a participant as its node's name tells it.
type groupChild struct {
	node string
	name string
	guid string
	seq  int32
}

// memberNode is the name of a participant's node without its sequence.
func memberNode(escaped, guid string) string { return escaped + "-" + guid + "-" }

// parseMember reads the name of a participant's node; it reports false for a
// foreign one.
func parseMember(node string) (groupChild, bool) {
	head, digits, ok := cutLast(node, '-')
	if !ok {
		return groupChild{}, false
	}
	if strings.HasSuffix(head, "-") { // a sequence that has wrapped is negative
		head, digits = head[:len(head)-1], "-"+digits
	}
	seq, ok := znode.ParseSequence(digits)
	if !ok {
		return groupChild{}, false
	}
	escaped, guid, ok := cutLast(head, '-')
	if !ok || len(guid) != znode.GUIDLength || strings.Trim(guid, "0123456789abcdef") != "" {
		return groupChild{}, false
	}
	name, ok := znode.UnescapeScope(escaped)
	return groupChild{node: node, name: name, guid: guid, seq: seq}, ok
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// parseMembers returns the participants in the order in which they came.
func parseMembers(nodes []string) []groupChild {
	children := make([]groupChild, 0, len(nodes))
	for _, node := range nodes {
		if c, ok := parseMember(node); ok {
			children = append(children, c)
		}
	}
	slices.SortFunc(children, func(a, b groupChild) int {
		return cmp.Or(znode.CompareSequence(a.seq, b.seq), strings.Compare(a.node, b.node))
	})
	znode.Unwrap(children, func(c groupChild) int32 { return c.seq })
	return children
}

// Why nodes do not belong among groups and participants, by their names.
const (
	NotAGroup  = "its name is no group's"
	NotAMember = "its name is no participant's"
	noSessions = "it is not ephemeral: no session keeps it"
)

// CheckSpec returns a *RecordError for data of a group's node that cannot be read.
func CheckSpec(data []byte) error {
	_, err := decodeSpec(data)
	return err
}

// CheckAssignment returns an error for data of an assignment that cannot be read.
func CheckAssignment(data []byte) error {
	_, err := decodeAssignment(data, new(zkclient.Stat))
	return err
}

// CheckMember returns a *RecordError for data of a participant's node that cannot be read.
func CheckMember(data []byte) error {
	_, err := decodeMember(data)
	return err
}

// IsMember reports whether a name is that of a participant's node.
func IsMember(name string) bool {
	_, ok := parseMember(name)
	return ok
}

func (r memberRecord) encode() []byte { return znode.Encode(r) }
