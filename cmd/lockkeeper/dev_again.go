package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// startAgain is how this program is started again in a shell.
type startAgain struct {
	dir     string // to be in; "" for anywhere
	program string // quoted
}

func thisProgram() startAgain {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	dir, _ := os.Getwd()
	return again(path, dir, cmp.Or(os.Getenv("GOTMPDIR"), os.TempDir()))
}

// builtByRun is where `go run` has what it builds, below the directory for
// temporary files.
var builtByRun = regexp.MustCompile(`^go-build[0-9]+/b[0-9]+/exe/[^/]+$`)

// again returns how the program at path is started, which was started in dir.
func again(path, dir, temporary string) startAgain {
	below, err := filepath.Rel(resolved(temporary), resolved(path))
	if err != nil || !builtByRun.MatchString(filepath.ToSlash(below)) {
		return startAgain{program: quote(path)}
	}
	// What go run has built is gone with it.
	name := "./cmd/lockkeeper"
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		name = "github.com/lockkeeper/lockkeeper/cmd/lockkeeper"
	}
	return startAgain{dir: dir, program: "go run " + name}
}

// resolved returns path without symbolic links, if it can.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return filepath.Clean(path)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote writes a word for a shell.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
