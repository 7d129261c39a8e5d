package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

const groupsExample = "write a list like [{name: lock-group, locks: 12}]"

var groupShape = shape{
	name:    "a group",
	example: "write it like {name: lock-group, locks: 12}",
	keys: []key{
		needed(by("name", aText, "", "The name of the group.", (*reader).groupName), "write for example name: lock-group"),
		needed(by("locks", oneOf(wholeNumber(1, maxGroupLocks), someOf(aText)), "",
			"How many locks there are, or their names.", (*reader).groupLocks), locksInstead),
		to("holders", number[int](1, 1000, "write how many participants hold each lock at the same time, 1 or more"), 1,
			"How many participants hold each lock at the same time.", func(g *groupEntry) *int { return &g.Holders }),
		to("strategy", of[string]{kind: aText, read: (*reader).strategy}, filled(group.DefaultStrategy),
			"How the locks are spread: "+strings.Join(assignment.Names(), ", ")+", or one of the program's own.",
			func(g *groupEntry) *string { return &g.Strategy }),
		to("cleanup_timeout", positive, group.DefaultCleanupTimeout,
			"How long a participant needs to clean up when a lock moves away from it.",
			func(g *groupEntry) *time.Duration { return &g.CleanupTimeout }),
		to("debounce", of[time.Duration]{kind: aDuration, read: (*reader).groupDebounce}, group.DefaultDebounce,
			"How long the participants must be the same ones before locks move.",
			func(g *groupEntry) *time.Duration { return &g.Debounce }),
		to("max_moves", number[int](0, math.MaxInt32, "write how many locks may move in one round, or 0 for no limit"), 0,
			"How many locks are taken in one round from participants that are there; 0: no limit.",
			func(g *groupEntry) *int { return &g.MaxMoves }),
		to("limit", number[int](0, math.MaxInt32, "write how many locks a participant holds at most, or 0 for no limit"), 0,
			"How many locks a participant holds at most; 0: no limit.", func(g *groupEntry) *int { return &g.Limit }),
		by("participants", someOf(aText), "", "Who may join; without it, any participant.", (*reader).participants),
		apart("weights", named(aNumber), "", "How much of the whole each participant gets; who has none has 1."),
		apart("pins", named(aText), "", "Who holds a lock while it is there."),
		apart("zones", named(aText), "", "Where each participant runs: the holders of a lock are put into different zones."),
	},
	later: []string{"tags", "labels", "priority", "message"},
	hints: map[string]string{
		"count": `did you mean "locks"?`, "partitions": `did you mean "locks"?`, "replicas": `did you mean "holders"?`,
		"rebalancer": `did you mean "strategy"?`, "mode": `did you mean "strategy"?`,
		"members":  `did you mean "participants"?`,
		"capacity": `did you mean "limit"?`, "max_locks": `did you mean "limit"?`, "delay": `did you mean "debounce"?`,
	},
}

const (
	maxGroupLocks   = 100_000 // far more than one node of ZooKeeper has room for
	locksInstead    = "write how many, for example 12, or a list of names"
	maxGroupWeight  = 1e9
	longestDebounce = time.Hour
)

// A groupEntry is a group and where its settings stand.
type groupEntry struct {
	group.Spec
	name       value
	lockAt     map[string]value // by name; empty for a number
	members    map[string]value // who may join; nil: any
	badLocks   bool             // not all locks are known
	badMembers bool
}

// readGroups reads the groups, in the order of the file.
func (r *reader) readGroups(v value) []group.Spec {
	if !v.exists() {
		return nil
	}
	items, ok := r.items(v, groupsExample)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.missing(v, "the list is empty", "remove it, or "+groupsExample)
	}
	var groups []group.Spec
	first := map[string]value{}
	for _, item := range items {
		if !item.exists() {
			continue
		}
		before := r.problems()
		g, ok := r.group(item)
		if !ok {
			continue
		}
		if other, twice := first[g.Name]; twice && g.Name != "" {
			r.problem(g.name, fmt.Sprintf("there is a group %s already, at %d:%d", quote(g.Name), other.line, other.column),
				"write another name")
		} else {
			first[g.Name] = g.name
		}
		if r.problems() == before && !r.torn {
			r.refused(item, g.Validate()) // what only the whole can tell: its size
		}
		groups = append(groups, g.Spec)
	}
	return groups
}

func (r *reader) group(v value) (groupEntry, bool) {
	var g groupEntry
	o, ok := r.section(v, &groupShape, &g)
	if !ok {
		return g, false
	}
	g.badLocks = g.badLocks || !o.has("locks") || g.Name == ""
	if v, n := o.get("holders"), len(g.Participants); v.exists() && g.members != nil && !g.badMembers && g.Holders > n {
		r.problem(v, fmt.Sprintf("%d is more than the %d participants that may join", g.Holders, n),
			fmt.Sprintf("write %d or less", n))
	}
	r.weights(o.get("weights"), &g)
	r.pins(o.get("pins"), &g)
	r.zones(o.get("zones"), &g)
	r.adviseGroup(o, g)
	return g, true
}

func (r *reader) strategy(v value) (string, bool) {
	name, ok := r.word(v, append(assignment.Names(), r.strategies...)...)
	if !ok {
		return group.DefaultStrategy, false
	}
	return name, true
}

func (r *reader) groupDebounce(v value) (time.Duration, bool) {
	d, ok := r.positive(v)
	if ok && d > longestDebounce {
		r.problem(v, words.Duration(d)+" is too long", "write "+words.Duration(longestDebounce)+" or less")
	}
	return d, ok
}

// groupName takes what a job could be called.
func (r *reader) groupName(v value, g *groupEntry) {
	g.name = v
	name, ok := r.text(v, "write for example lock-group")
	if !ok {
		return
	}
	g.Name = name
	probe := jobs.Job{Name: name, Work: jobs.Func(nil)}
	for _, err := range unjoin(probe.Validate()) {
		if refusedField(err) == "name" {
			r.refused(v, err)
		}
	}
}

// between reads a whole number within bounds; least if it is none.
func (r *reader) between(v value, least, most int64, instead string) (int64, bool) {
	n, ok := r.integer(v, instead)
	switch {
	case !ok:
	case n < least:
		r.problem(v, fmt.Sprintf("%d is less than %d", n, least), instead)
	case n > most:
		r.problem(v, fmt.Sprintf("%d is more than %d", n, most), instead)
	default:
		return n, true
	}
	return least, false
}

// groupLocks reads how many locks there are, or their names.
func (r *reader) groupLocks(v value, g *groupEntry) {
	before := r.problems()
	if r.isList(v) {
		g.Locks, g.lockAt = r.names(v, "a lock", locksInstead)
		if len(v.node.Content) == 0 {
			r.missing(v, "the list is empty", locksInstead)
		}
	} else if n, ok := r.between(v, 1, maxGroupLocks, locksInstead); ok {
		g.Locks = group.NumberedLocks(g.Name, int(n))
		g.lockAt = map[string]value{}
		for _, lock := range g.Locks {
			g.lockAt[lock] = v
		}
	}
	g.badLocks = r.problems() > before
}

// participants reads who may join.
func (r *reader) participants(v value, g *groupEntry) {
	const instead = "write a list such as [host1, host2], or leave it out to let any participant join"
	before := r.problems()
	g.Participants, g.members = r.names(v, "a participant", instead)
	if r.isList(v) && len(v.node.Content) == 0 {
		r.missing(v, "the list is empty", instead)
	}
	g.badMembers = r.problems() > before
}

// names reads a list of names, each once. The map is nil if it is no list.
func (r *reader) names(v value, what, instead string) ([]string, map[string]value) {
	items, ok := r.items(v, instead)
	if !ok {
		return nil, nil
	}
	if n := len(items); n > maxGroupLocks {
		r.problem(v, fmt.Sprintf("the list has %d names, more than %d", n, maxGroupLocks), "write fewer")
		return nil, nil
	}
	var names []string
	first := make(map[string]value, len(items))
	for _, item := range items {
		name, ok := r.text(item, "write the name of "+what)
		if !ok {
			continue
		}
		if other, twice := first[name]; twice {
			r.problem(item,
				fmt.Sprintf("%s stands here for the second time, first at %d:%d", quote(name), other.line, other.column),
				"remove or rename one of them")
			continue
		}
		first[name] = item
		names = append(names, name)
		r.checkGroupName(item, name, what)
	}
	return names, first
}

// checkGroupName asks the recipe whether something can have a name.
func (r *reader) checkGroupName(v value, name, what string) {
	probe := group.Spec{Name: "group", Locks: []string{"lock"}}
	if what == "a lock" {
		probe.Locks[0] = name
	} else {
		probe.Participants = []string{name}
	}
	r.refused(v, probe.Validate())
}

// byMember reads a mapping whose keys are participants.
func (r *reader) byMember(v value, g *groupEntry, instead string) []entry {
	if !v.exists() {
		return nil
	}
	entries, _ := r.entries(v, instead, v.named)
	known := entries[:0:0]
	for _, e := range entries {
		if r.member(e.key, e.name, g) {
			known = append(known, e)
		}
	}
	return known
}

// member reports whether a name is that of a participant that may join.
func (r *reader) member(v value, name string, g *groupEntry) bool {
	if g.members == nil {
		before := r.problems()
		r.checkGroupName(v, name, "a participant")
		return r.problems() == before
	}
	if _, known := g.members[name]; known || g.badMembers {
		return true
	}
	r.unknown(v, "participant", name, g.Participants, "add it to participants")
	return false
}

func (r *reader) unknown(v value, what, name string, known []string, instead string) {
	if meant := r.suggest.didYouMean(name, known); meant != "" {
		instead = meant
	}
	r.missing(v, fmt.Sprintf("there is no %s %s", what, quote(name)), instead)
}

func (r *reader) weights(v value, g *groupEntry) {
	const instead = "write a number, for example {host1: 2}; who has none has 1"
	for _, e := range r.byMember(v, g, instead) {
		s, ok := r.scalar(e.value, "write a number such as 2 or 0.5")
		if !ok {
			continue
		}
		w, err := strconv.ParseFloat(s.text, 64)
		switch {
		case err != nil || s.tag == tagString && !s.expanded || math.IsNaN(w):
			r.problem(e.value, s.quoted()+" is not a number", "write a number such as 2 or 0.5")
		case w < 0 || w > maxGroupWeight:
			r.problem(e.value, s.quoted()+" is out of range", "write 0 to 1000000000")
		default:
			if g.Weights == nil {
				g.Weights = map[string]float64{}
			}
			g.Weights[e.name] = w
		}
	}
}

func (r *reader) pins(v value, g *groupEntry) {
	if !v.exists() {
		return
	}
	const instead = "write which lock belongs to whom, for example {lock-group_3: host1}"
	entries, _ := r.entries(v, instead, v.named)
	for _, e := range entries {
		if _, known := g.lockAt[e.name]; !known && !g.badLocks {
			r.unknown(e.key, "lock", e.name, g.Locks, "its locks are "+words.Few(g.Locks, fewNames))
		}
		member, ok := r.text(e.value, "write the name of a participant")
		if ok && r.member(e.value, member, g) {
			if g.Pins == nil {
				g.Pins = map[string]string{}
			}
			g.Pins[e.name] = member
		}
	}
}

func (r *reader) zones(v value, g *groupEntry) {
	for _, e := range r.byMember(v, g, "write where a participant runs, for example {host1: zone-a}") {
		if zone, ok := r.text(e.value, "write the name of a zone"); ok {
			if g.Zones == nil {
				g.Zones = map[string]string{}
			}
			g.Zones[e.name] = zone
		}
	}
}

// adviseGroup warns of what the strategy does not look at.
func (r *reader) adviseGroup(o object, g groupEntry) {
	ignored := map[string][]string{
		"balanced": {"weights"}, "sticky": {"weights"}, "mod": {"weights", "pins", "zones"},
	}
	for _, field := range ignored[g.Strategy] {
		if !o.has(field) {
			continue
		}
		instead := "remove them, or write strategy: balanced"
		if field == "weights" {
			instead = "remove them, or write strategy: weighted"
		}
		r.warn(o.get(field), fmt.Sprintf("the strategy %s does not look at %s", g.Strategy, field), instead)
	}
	if v := o.get("zones"); v.exists() && g.Holders == 1 && !slices.Contains(ignored[g.Strategy], "zones") {
		r.warn(v, "with one holder a lock there is nothing to spread over zones", "remove them, or write holders: 2 or more")
	}
}
