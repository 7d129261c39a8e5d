package tree

import (
	"strings"
	"unicode/utf8"
)

// ValidPath tells whether path may name a node (ZooKeeper's PathUtils).
func ValidPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	for _, r := range path {
		switch {
		case r <= 0x1f, 0x7f <= r && r <= 0x9f, 0xd800 <= r && r <= 0xf8ff, 0xfff0 <= r:
			return false // beyond 0xffff too: Java sees two surrogates there
		case r == utf8.RuneError:
			return false
		}
	}
	return true
}

// split cuts a path into its parent and its name. The parent of "/a" is "".
func split(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// special tells whether the server itself needs the node.
func special(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
