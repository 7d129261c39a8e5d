package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Spec declares a group of locks that are spread over the participants
// that are there. It is kept in ZooKeeper: participants of one group share it.
type Spec struct {
	// Name of the group, at most 200 bytes when escaped (see EscapeScope).
	Name string

	// Locks are the names of the group's locks, each once. NumberedLocks makes
	// them of a number.
	Locks []string

	// Holders is how many participants hold each lock at a time. While there
	// are fewer participants, all of them hold it. Defaults to 1.
	Holders int

	// Limit is how many locks a participant holds at most; those for which there
	// is no room have fewer holders. Defaults to 0: no limit.
	Limit int

	// Strategy names what decides who gets which lock: "balanced", "sticky",
	// "mod", "rendezvous", "weighted", or one that was given to New.
	// Defaults to balanced.
	Strategy string

	// CleanupTimeout is how long a participant has to put things right when a
	// lock moves away from it: the deadline of OnReleased. The lock does not
	// move before that has returned, however long it takes. Defaults to 10s.
	CleanupTimeout time.Duration

	// Debounce is how long the participants have to be the same ones before locks
	// move between them, so that one that comes and goes does not make locks move
	// twice. It is put off no longer than DebounceLimit times that. Free locks
	// wait for one Debounce and no longer. Defaults to 100ms.
	Debounce time.Duration

	// MaxMoves limits how many locks are taken in one round from participants
	// that are there; further rounds follow until all is where it belongs.
	// Defaults to 0: no limit.
	MaxMoves int

	// Participants, when set, are the only ones that may join.
	Participants []string

	// Weights say how large the share of a participant is; others have 1. For
	// the strategy "weighted".
	Weights map[string]float64

	// Pins names the participant that a lock belongs to while it is there.
	Pins map[string]string

	// Zones names the zone of a participant. Holders of one lock are put into
	// different zones where that is possible.
	Zones map[string]string
}

// Defaults of a Spec.
const (
	DefaultStrategy       = "balanced"
	DefaultCleanupTimeout = 10 * time.Second
	DefaultDebounce       = 100 * time.Millisecond
)

// DebounceLimit is how many times Spec.Debounce a change is put off at
// most while participants go on coming and going.
const DebounceLimit = 10

// NumberedLocks names n locks after their group: group_0, group_1 and so on.
func NumberedLocks(group string, n int) []string {
	locks := make([]string, 0, max(n, 0))
	for i := range n {
		locks = append(locks, fmt.Sprintf("%s_%d", group, i))
	}
	return locks
}

// maxGroupName is the longest name of a lock or a participant, in bytes.
const maxGroupName = 128

// maxGroupHolders is more than any group needs, and keeps sums from
// overflowing.
const maxGroupHolders = 1000

// Validate returns everything that is wrong with the spec, joined (errors.Join);
// each problem is a *RequestError. Whether the strategy is known is found out
// by New.
func (spec Spec) Validate() error {
	spec.complete()
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &zkclient.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if _, err := znode.EscapeScope(spec.Name); err != nil {
		reason := err.Error()
		if e, ok := errors.AsType[*zkclient.RequestError](err); ok {
			reason = e.Reason
		}
		if spec.Name == "" {
			reason = "is empty; write a name such as lock-group"
		}
		bad("name", "%s", reason)
	}
	if len(spec.Locks) == 0 {
		bad("locks", "there are none; write how many, or their names")
	}
	checkGroupNames(bad, "locks", "lock", spec.Locks, badGroupName)
	checkGroupNames(bad, "participants", "participant", spec.Participants, badParticipant)
	if spec.Holders < 1 || spec.Holders > maxGroupHolders {
		bad("holders", "%d is out of range; write how many participants hold each lock at a time: 1 to %d",
			spec.Holders, maxGroupHolders)
	}
	if n := len(spec.Participants); n > 0 && spec.Holders > n {
		bad("holders", "%d is more than the %d participants that may join", spec.Holders, n)
	}
	if spec.Limit < 0 {
		bad("limit", "%d is negative; write 0 for no limit", spec.Limit)
	}
	if spec.CleanupTimeout < 0 {
		bad("cleanup_timeout", "%s is negative; write for example 10s", spec.CleanupTimeout)
	}
	if spec.Debounce < 0 || spec.Debounce > time.Hour {
		bad("debounce", "%s is out of range; write 0s to 1h, for example 100ms", spec.Debounce)
	}
	if spec.MaxMoves < 0 {
		bad("max_moves", "%d is negative; write 0 for no limit", spec.MaxMoves)
	}
	spec.checkMaps(bad)
	if len(errs) == 0 {
		spec.checkSize(bad)
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkMaps checks what the spec says of single participants and locks.
func (spec *Spec) checkMaps(bad func(field, format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(spec.Weights)) {
		if w := spec.Weights[name]; !(w >= 0) || w > 1e9 {
			bad("weights", "the weight %v of participant %q is out of range; write 0 to 1e9", w, name)
		}
	}
	declared := spec.declared()
	for _, lock := range slices.Sorted(maps.Keys(spec.Pins)) {
		switch {
		case !declared[lock]:
			bad("pins", "the group has no lock %q", lock)
		case spec.Pins[lock] == "":
			bad("pins", "lock %q is pinned to no participant; write the name of one", lock)
		}
	}
	for field, named := range map[string][]string{
		"pins": slices.Sorted(maps.Values(spec.Pins)), "weights": slices.Sorted(maps.Keys(spec.Weights)),
		"zones": slices.Sorted(maps.Keys(spec.Zones)),
	} {
		for _, name := range slices.Compact(named) {
			if name != "" && len(spec.Participants) > 0 && !slices.Contains(spec.Participants, name) {
				bad(field, "%q is not one of the participants that may join", name)
			}
		}
	}
}

// checkSize checks that the records of the group fit into their nodes.
func (spec *Spec) checkSize(bad func(field, format string, args ...any)) {
	if size := len(spec.encode()); size > maxGroupRecord {
		bad("locks", "the group's declaration takes %d bytes in one node of ZooKeeper, which takes %d; split the group, "+
			"or shorten the names", size, maxGroupRecord)
	}
	if size := spec.largest(); size > maxGroupRecord {
		bad("locks", "%d locks with %d holders each could need %d bytes in one node of ZooKeeper, which takes %d; "+
			"split the group, or shorten the names", len(spec.Locks), spec.Holders, size, maxGroupRecord)
	}
}

func checkGroupNames(
	bad func(field, format string, args ...any), field, what string, names []string, wrong func(name string) string,
) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case seen[name]:
			bad(field, "%s %q is there twice", what, name)
		default:
			if why := wrong(name); why != "" {
				bad(field, "%s %q %s", what, name, why)
			}
		}
		seen[name] = true
	}
}

// badGroupName says what is wrong with the name of a lock or a participant.
func badGroupName(name string) string {
	switch {
	case name == "":
		return "has no name"
	case words.HasControl(name):
		return "contains a control character or invalid UTF-8; write printable characters"
	case strings.TrimSpace(name) != name:
		return "has white space at its ends"
	case len(name) > maxGroupName:
		return fmt.Sprintf("takes %d bytes; the limit is %d", len(name), maxGroupName)
	}
	return ""
}

// badParticipant says what is wrong with the name of a participant, which is a
// part of its node's name.
func badParticipant(name string) string {
	if why := badGroupName(name); why != "" {
		return why
	}
	if _, err := znode.EscapeScope(name); err != nil {
		reason := err.Error()
		if e, ok := errors.AsType[*zkclient.RequestError](err); ok {
			reason = e.Reason
		}
		return strings.TrimPrefix(reason, strconv.Quote(name)+" ")
	}
	return ""
}

// declared returns the locks that the group has.
func (spec *Spec) declared() map[string]bool {
	declared := make(map[string]bool, len(spec.Locks))
	for _, lock := range spec.Locks {
		declared[lock] = true
	}
	return declared
}

// allows reports whether one that holds n locks may get another one.
func (spec *Spec) allows(n int) bool { return spec.Limit == 0 || n < spec.Limit }

// complete fills in defaults.
func (spec *Spec) complete() {
	if spec.Holders == 0 {
		spec.Holders = 1
	}
	if spec.Strategy == "" {
		spec.Strategy = DefaultStrategy
	}
	if spec.CleanupTimeout == 0 {
		spec.CleanupTimeout = DefaultCleanupTimeout
	}
	if spec.Debounce == 0 {
		spec.Debounce = DefaultDebounce
	}
}

// maxGroupRecord is how many bytes a group may keep in one node: ZooKeeper
// takes requests of 1,048,575, their paths and headers included.
const maxGroupRecord = 1_000_000

// largest is how many bytes the assignment can need at most: while each lock
// moves from all its holders to others.
func (spec *Spec) largest() int {
	const (
		head   = 64 << 10 // counts, and the participants
		lock   = len(`"":{"h":[],"p":[]},`)
		holder = len(`[999,9007199254740991,1],`)
		plan   = len(`999,`)
	)
	size := head
	for _, name := range spec.Locks {
		size += lock + len(znode.Encode(name)) - 2 + spec.Holders*(holder+plan)
	}
	return size
}
