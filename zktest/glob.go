package zktest

import (
	"fmt"
	"strings"
)

// A glob is a pattern of paths, by their elements.
type glob struct {
	text     string
	elements []string
}

// anyDepth stands for any number of elements.
const anyDepth = "**"

func newGlob(text string) (glob, error) {
	if !strings.HasPrefix(text, "/") {
		return glob{}, fmt.Errorf("pattern %q does not begin with a slash", text)
	}
	if text == "/" {
		return glob{text: text}, nil
	}
	elements := strings.Split(text[1:], "/")
	for _, e := range elements {
		if e == "" {
			return glob{}, fmt.Errorf("pattern %q has an empty element", text)
		}
		if e != anyDepth && strings.Contains(e, anyDepth) {
			return glob{}, fmt.Errorf("pattern %q: ** is an element of its own", text)
		}
	}
	return glob{text: text, elements: elements}, nil
}

func (g glob) matches(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	if path == "/" {
		return len(g.elements) == 0
	}
	return matchElements(g.elements, strings.Split(path[1:], "/"))
}

func matchElements(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] != anyDepth {
		return len(path) > 0 && matchElement(pattern[0], path[0]) && matchElements(pattern[1:], path[1:])
	}
	if len(pattern) == 1 {
		return len(path) > 0
	}
	for skip := range len(path) + 1 {
		if matchElements(pattern[1:], path[skip:]) {
			return true
		}
	}
	return false
}

func matchElement(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	for rest := name[len(head):]; ; rest = rest[1:] {
		if matchElement(tail, rest) {
			return true
		}
		if rest == "" {
			return false
		}
	}
}
