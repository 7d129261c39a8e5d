package config

import (
	"fmt"
	"strings"
)

// expand replaces ${NAME} and ${NAME:-default} by the environment; $${ stands
// for a plain ${. When it cannot, what and instead say why.
func expand(text string, lookup func(string) (string, bool)) (expanded, what, instead string) {
	var b strings.Builder
	rest := text
	for {
		before, after, found := strings.Cut(rest, "${")
		if !found {
			b.WriteString(rest)
			return b.String(), "", ""
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString(before + "{")
			rest = after
			continue
		}
		b.WriteString(before)
		inner, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Sprintf("%s: the ${ is not closed", quote(text)), `write "}" after the name, or $${ for a plain ${`
		}
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !isVariable(name) {
			return "", fmt.Sprintf("%s is not the name of an environment variable", quote(name)),
				"write ${NAME}, ${NAME:-default}, or $${ for a plain ${"
		}
		value, set := lookup(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set:
			return "", fmt.Sprintf("the environment variable %s is not set", name),
				fmt.Sprintf("set it, write ${%s:-default}, or $${%s} to keep it as it is", name, name)
		}
		b.WriteString(value)
		rest = tail
	}
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
