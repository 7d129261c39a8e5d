package top

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
)

// labels are names cut to columns, so that they stay apart: of those that would
// look alike the part that differs is kept.
func (l Look) labels(names []string, columns int) map[string]string {
	labels := make(map[string]string, len(names))
	alike := map[string][]string{}
	for _, name := range names {
		if _, known := labels[name]; known {
			continue
		}
		label := l.cutMiddle(name, columns)
		labels[name] = label
		alike[label] = append(alike[label], name)
	}
	for _, group := range alike {
		if len(group) > 1 {
			l.tellApart(labels, group, columns)
		}
	}
	return labels
}

// tellApart cuts the names of a group outside of the part in which they differ.
func (l Look) tellApart(labels map[string]string, group []string, columns int) {
	names := make([][]rune, len(group))
	for i, name := range group {
		names[i] = []rune(name)
	}
	head, tail := sharedEnds(names)
	alike := map[string][]string{}
	for i, name := range group {
		label := l.cutAround(names[i], head, tail, columns)
		labels[name] = label
		alike[label] = append(alike[label], name)
	}
	for _, rest := range alike {
		if len(rest) > 1 && len(rest) < len(group) { // they share more than the group did
			l.tellApart(labels, rest, columns)
		}
	}
}

// sharedEnds is how many runes all names have in common at their beginning, and
// at their end behind that.
func sharedEnds(names [][]rune) (head, tail int) {
	first, shortest := names[0], len(names[0])
	for _, name := range names {
		shortest = min(shortest, len(name))
	}
	all := func(same func(name []rune) bool) bool {
		return !slices.ContainsFunc(names, func(n []rune) bool { return !same(n) })
	}
	for head < shortest && all(func(n []rune) bool { return n[head] == first[head] }) {
		head++
	}
	for tail < shortest-head && all(func(n []rune) bool { return n[len(n)-1-tail] == first[len(first)-1-tail] }) {
		tail++
	}
	return head, tail
}

// cutAround cuts a name in the head or the tail that it shares with others, if it
// can be between whole parts of its path.
func (l Look) cutAround(name []rune, head, tail, columns int) string {
	before, after := slices.Index(reversed(name[:head]), '/'), slices.Index(name[len(name)-tail:], '/')
	if before >= 0 && after >= 0 {
		if label, ok := l.cutEnds(name, head-before, tail-after, columns); ok {
			return label
		}
	}
	if label, ok := l.cutEnds(name, head, tail, columns); ok {
		return label
	}
	return l.cut(l.ellipsis()+string(name[head:]), columns)
}

func reversed(runes []rune) []rune {
	out := slices.Clone(runes)
	slices.Reverse(out)
	return out
}

// cutEnds shortens the longer one of the two ends, or else both.
func (l Look) cutEnds(name []rune, head, tail, columns int) (label string, ok bool) {
	begin, differs, end := string(name[:head]), string(name[head:len(name)-tail]), string(name[len(name)-tail:])
	mark := lettering.Columns(l.ellipsis())
	room := columns - lettering.Columns(differs) - mark // for both ends
	widthBegin, widthEnd := lettering.Columns(begin), lettering.Columns(end)
	switch {
	case widthBegin+widthEnd <= room+mark:
		return string(name), true
	case widthEnd >= widthBegin && widthBegin <= room:
		return begin + differs + l.ellipsis() + lastColumns(end, room-widthBegin), true
	case widthEnd <= room:
		return lettering.Cut(begin, room-widthEnd, "") + l.ellipsis() + differs + end, true
	case widthBegin <= room:
		return begin + differs + l.ellipsis() + lastColumns(end, room-widthBegin), true
	}
	if room -= mark; room < 0 {
		return "", false
	}
	return lettering.Cut(begin, room/2, "") + l.ellipsis() + differs + l.ellipsis() + lastColumns(end, room-room/2), true
}

// lastColumns is the end of a text that is no wider.
func lastColumns(text string, columns int) string {
	tail, used := len(text), 0
	for _, r := range slices.Backward([]rune(text)) {
		n := lettering.ColumnsOf(r)
		if used+n > columns || len(text)-tail > 4*(columns+1) {
			break
		}
		used, tail = used+n, tail-len(string(r))
	}
	return text[tail:]
}
