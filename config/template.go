package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
)

// A Template is what a first configuration says: one job under one lock.
type Template struct {
	Servers  string   // of ZooKeeper, with commas between them
	Root     string   // the node that everything lives under; "": the default
	Job      string   // its name
	Schedule string   // of the job
	Run      []string // the job's command
	Scope    string   // what the job's lock protects
}

// Text returns the file. The meaning of each key stands above it; keys that most files set sooner or later
// are there as comments, with their defaults. It returns an *Errors for what cannot be in a file.
func (t Template) Text() ([]byte, error) {
	var w templateWriter
	w.line("# Configuration of Lockkeeper; docs/config.md has all keys. Check it: lockkeeper config validate")
	w.line("")
	w.key(&fileShape, "", "version", "1")
	w.line("")
	w.section(&fileShape, "", "zookeeper")
	w.key(&zookeeperShape, "  ", "servers", asScalar(t.Servers))
	if t.Root == "" {
		w.option(&zookeeperShape, "  ", "root", "")
	} else {
		w.key(&zookeeperShape, "  ", "root", asScalar(t.Root))
	}
	w.option(&zookeeperShape, "  ", "session_timeout", "")
	w.line("")
	w.option(&fileShape, "", "metrics", "{listen: "+quote(exampleListen)+"}")
	w.option(&fileShape, "", "console", "{listen: "+quote(exampleConsole)+"}")
	w.line("")
	w.section(&fileShape, "", "jobs")
	w.line("  " + asScalar(t.Job) + ":")
	w.key(&jobShape, "    ", "schedule", asScalar(t.Schedule))
	w.key(&jobShape, "    ", "run", "["+words.Join(t.Run, ", ", asScalar)+"]")
	w.option(&jobShape, "    ", "timeout", "1h")
	w.section(&jobShape, "    ", "locks")
	w.key(&lockShape, "      ", "scope", asScalar(t.Scope), "- ")
	w.option(&lockShape, "        ", "priority", "")
	w.option(&lockShape, "        ", "lease_timeout", "")
	w.option(&lockShape, "        ", "cleanup_timeout", words.Duration(jobs.DefaultCleanupTimeout))
	if w.err != nil {
		return nil, w.err
	}
	text := w.text.Bytes()
	if _, err := Parse("", text, Options{}); err != nil {
		return nil, err
	}
	return text, nil
}

type templateWriter struct {
	text bytes.Buffer
	err  error
}

func (w *templateWriter) line(text string) { w.text.WriteString(text + "\n") }

// key writes a key with its meaning above it, and marks in front of it.
func (w *templateWriter) key(s *shape, indent, name, value string, marks ...string) {
	w.meaning(s, indent, name)
	w.line(strings.TrimRight(indent+strings.Join(marks, "")+name+": "+value, " "))
}

// section writes the key of a mapping or list that follows.
func (w *templateWriter) section(s *shape, indent, name string) { w.key(s, indent, name, "") }

// option writes a key as a comment; value is "" for its default.
func (w *templateWriter) option(s *shape, indent, name, value string) {
	k := w.meaning(s, indent, name)
	if value == "" {
		value = k.without
	}
	w.line(indent + "#" + name + ": " + value)
}

func (w *templateWriter) meaning(s *shape, indent, name string) key {
	i := slices.IndexFunc(s.keys, func(k key) bool { return k.name == name })
	if i < 0 {
		w.err = fmt.Errorf("%s has no key %s", s.name, name)
		return key{}
	}
	w.line(indent + "# " + s.keys[i].doc)
	return s.keys[i]
}

var (
	plainScalar = regexp.MustCompile(`^-{0,2}[A-Za-z/][A-Za-z0-9_/.-]*$`)
	wordsOfYAML = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"} // in one of its versions
)

// asScalar writes a text so that the file means just that, with quotes if it needs them.
func asScalar(text string) string {
	if plainScalar.MatchString(text) && !slices.Contains(wordsOfYAML, strings.ToLower(text)) {
		return text
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b) // its strings are YAML
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text can always be written
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "${", "$${")
}
