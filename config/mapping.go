package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// An entry is one "key: value" of a mapping.
type entry struct {
	name  string
	key   value
	value value
}

// entries returns what is in a mapping, with what it merges. named makes the
// path of a value of its name.
func (d *decoder) entries(v value, instead string, named func(name string) string) ([]entry, bool) {
	if !d.filled(v, instead) {
		return nil, false
	}
	if v.node.Kind != yaml.MappingNode {
		d.problem(v, describe(v.node)+" is not a mapping", instead)
		return nil, false
	}
	var all []entry
	d.collectEntries(v, named, map[string]bool{}, 0, &all)
	return all, true
}

func (d *decoder) collectEntries(v value, named func(string) string, seen map[string]bool, level int, all *[]entry) {
	first := map[string]*yaml.Node{}
	var merges []value
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		keyNode, node := v.node.Content[i], v.node.Content[i+1]
		key := d.use(keyNode, v.path, v)
		switch {
		case !key.exists():
			continue
		case key.node.Kind != yaml.ScalarNode || key.node.Tag == tagNull:
			d.problem(key, describe(key.node)+" is not a name", "write a word")
			continue
		case key.node.Tag == tagMerge:
			merges = append(merges, d.use(node, v.path, v))
			continue
		}
		name := key.node.Value
		if before, twice := first[name]; twice {
			if !d.repeated[keyNode] {
				d.repeated[keyNode] = true
				d.problem(key,
					fmt.Sprintf("%s stands here for the second time, first at %d:%d", quote(name), before.Line, before.Column),
					"remove or rename one of them")
			}
		} else {
			first[name] = keyNode
			if seen[name] {
				continue
			}
			seen[name] = true
		}
		key.path = named(name)
		*all = append(*all, entry{name: name, key: key, value: d.use(node, named(name), v)})
	}
	for _, merge := range merges {
		d.merge(merge, named, seen, level+1, all)
	}
}

// merge adds what "<<" brings in. What the mapping itself says wins, then the
// first of several merged mappings.
func (d *decoder) merge(v value, named func(string) string, seen map[string]bool, level int, all *[]entry) {
	const instead = `write "<<: *anchor", or a list of such aliases`
	switch {
	case !v.exists():
	case level > maxMerges:
		d.problem(v, fmt.Sprintf("mappings merge mappings in more than %d levels", maxMerges), "use fewer")
	case v.node.Kind == yaml.MappingNode:
		d.collectEntries(v, named, seen, level, all)
	case v.node.Kind == yaml.SequenceNode:
		for _, item := range v.node.Content {
			source := d.use(item, v.path, v)
			if source.exists() && source.node.Kind != yaml.MappingNode {
				d.problem(source, describe(source.node)+" cannot be merged", instead)
				continue
			}
			d.merge(source, named, seen, level, all)
		}
	default:
		d.problem(v, describe(v.node)+" cannot be merged", instead)
	}
}

// items returns what is in a list.
func (d *decoder) items(v value, instead string) ([]value, bool) {
	if !d.filled(v, instead) {
		return nil, false
	}
	if v.node.Kind != yaml.SequenceNode {
		d.problem(v, describe(v.node)+" is not a list", instead)
		return nil, false
	}
	items := make([]value, len(v.node.Content))
	for i, item := range v.node.Content {
		items[i] = d.use(item, fmt.Sprintf("%s[%d]", v.path, i), v)
	}
	return items, true
}
