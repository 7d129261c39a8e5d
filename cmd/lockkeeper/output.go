package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// write writes v as JSON or YAML, with the same names, or else lets table
// write it for people.
func (p *program) write(v any, table func(w io.Writer, wide bool)) error {
	switch p.output.is {
	case "json":
		return p.writeJSON(v)
	case "yaml":
		return p.writeYAML(v)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	table(w, p.output.is == "wide")
	return w.Flush()
}

func (p *program) writeJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeJSONLine writes v on one line, for what has no end.
func (p *program) writeJSONLine(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeYAML writes what JSON would, which is YAML already, in another style.
func (p *program) writeYAML(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return err
	}
	plain(&tree)
	out, err := yaml.Marshal(&tree)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(out)
	return err
}

// plain takes JSON's braces and, where they are not needed, quotes away.
func plain(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// row writes one line of a table.
func row(w io.Writer, cells ...any) {
	_, _ = fmt.Fprintln(w,
		strings.TrimRight(words.Join(cells, "\t", func(cell any) string { return printable(fmt.Sprint(cell)) }), "\t"))
}

// printable keeps what others have written into ZooKeeper from playing tricks
// on the terminal, on the one line that it is on.
func printable(s string) string {
	return strings.ReplaceAll(lettering.Plain(s), "\n", "\uFFFD")
}

// manyUnreadable is how many nodes are named that cannot be read.
const manyUnreadable = 20

// tellUnreadable names what a list has left out, or of which it knows little.
func (p *program) tellUnreadable(all []lock.Unreadable) {
	for i, u := range all {
		if i == manyUnreadable {
			p.say("unreadable: %s; all of them: lockkeeper doctor", words.Count(len(all)-i, "more node"))
			break
		}
		p.say("unreadable: %s", u)
	}
}
