package config

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/jobs"
)

const (
	goPrefix   = "go:"
	runExample = "write the command as a list, for example [/usr/bin/backup, --all]"
)

var (
	anyText     = kind{what: "text", scalar: ofAnyText}
	commandKind = someOf(anyText)
	goKind      = kind{what: goPrefix + "NAME", scalar: ofGoFunc}
	runKind     = oneOf(commandKind, goKind, like(&runShape))
)

var runShape = shape{
	name:    "run",
	example: runExample,
	keys: []key{
		{"command", commandKind, "", "The program and its arguments, without a shell."},
		{"env", named(anyText), "", "Environment variables that it gets beside those of the daemon."},
		{"dir", aFile, "that of the daemon", "The directory it runs in."},
		{"cleanup", commandKind, "", "Runs under the lock when the work was interrupted."},
	},
	must:  []string{"command"},
	later: []string{"http", "url", "temporal", "workflow", "user", "stdin", "output", "shell"},
	hints: map[string]string{
		"exec": `did you mean "command"?`, "argv": `did you mean "command"?`, "cmd": `did you mean "command"?`,
		"args": "write them behind the command: [command, argument]", "go": "write run: go:NAME",
		"environment": `did you mean "env"?`, "cwd": `did you mean "dir"?`, "workdir": `did you mean "dir"?`, "working_dir": `did you mean "dir"?`,
		"timeout": "it belongs to the job, beside run", "cleanup_timeout": "it belongs to the lock of the job",
	},
}

// A task is what a job does.
type task struct {
	at      value
	command *jobs.Command // nil for a Go function
	cleanup *jobs.Command // runs under the lock when the command was interrupted
	goFunc  jobs.Work
	tidies  value // where the cleanup is written
}

// work returns the task as the jobs package wants it, or nil if it cannot run.
func (t task) work() jobs.Work {
	switch {
	case t.command == nil:
		return t.goFunc
	case t.cleanup == nil:
		return t.command
	}
	cleanup := t.cleanup
	return jobs.WithCleanup(t.command, func(ctx context.Context, run jobs.Run) error { return cleanup.Run(ctx, run) })
}

// run reads what a job does: a command, or the name of a Go function.
func (r *reader) run(v value) task {
	t := task{at: v}
	switch {
	case !r.filled(v, runExample):
	case v.node.Kind == yaml.SequenceNode:
		if argv, ok := r.argv(v); ok {
			t.command = &jobs.Command{Argv: argv}
		}
	case v.node.Kind == yaml.MappingNode:
		r.command(v, &t)
	default:
		text, ok := r.text(v, runExample)
		if !ok {
			break
		}
		if name, isGo := strings.CutPrefix(text, goPrefix); isGo {
			t.goFunc = r.goFunc(v, strings.TrimSpace(name))
			t.tidies = v
			break
		}
		r.problem(v, quote(text)+" is not a command", "write "+asList(text))
	}
	return t
}

// asList writes a command line as the list it should be.
func asList(line string) string {
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]#~=%{}\n") {
		return fmt.Sprintf("it as a list; with a shell: [/bin/sh, -c, %s]", quote(line))
	}
	if len(line) > maxQuoted {
		return "it as a list: [command, argument]"
	}
	return "[" + strings.Join(strings.Fields(line), ", ") + "]"
}

func (r *reader) goFunc(v value, name string) jobs.Work {
	if work, ok := r.works[name]; ok && work != nil {
		return work
	}
	names := slices.Sorted(maps.Keys(r.works))
	instead := r.suggest.didYouMean(name, names)
	switch {
	case instead != "":
	case len(names) > 0:
		instead = "this program has " + list(names)
	default:
		instead = "register it in the program that loads the file, or " + runExample
	}
	r.problem(v, fmt.Sprintf("no Go function %s is registered", quote(name)), instead)
	return nil
}

func (r *reader) command(v value, t *task) {
	o, ok := r.object(v, runShape)
	if !ok {
		return
	}
	command := &jobs.Command{}
	if o.has("command") {
		command.Argv, ok = r.argv(o.get("command"))
	} else {
		r.missing(v, "command is missing", "write {command: [/usr/bin/backup, --all]}")
		ok = false
	}
	if v := o.get("env"); v.exists() {
		command.Env = append(os.Environ(), r.environment(v)...)
	}
	if v := o.get("dir"); v.exists() {
		command.Dir = r.directory(v)
	}
	if ok {
		t.command = command
	}
	if o.has("cleanup") {
		t.tidies = o.get("cleanup")
		if argv, ok := r.argv(t.tidies); ok {
			// The deadline of the hook is the end of its grace: no time after it.
			t.cleanup = &jobs.Command{Argv: argv, Env: command.Env, Dir: command.Dir, CleanupTimeout: -1}
		}
	}
}

// argv reads a command and its arguments.
func (r *reader) argv(v value) ([]string, bool) {
	if r.isScalar(v) && v.node.Tag != tagNull {
		r.problem(v, describe(v.node)+" is not a list", "write "+asList(v.node.Value))
		return nil, false
	}
	items, ok := r.items(v, runExample)
	if !ok {
		return nil, false
	}
	if len(items) == 0 {
		r.missing(v, "the command is empty", runExample)
		return nil, false
	}
	argv := make([]string, len(items))
	for i, item := range items {
		s, fine := r.scalar(item, "write a text, "+`in quotes if need be`)
		switch {
		case !fine:
			ok = false
		case strings.ContainsRune(s.text, 0):
			r.problem(item, s.quoted()+" has a NUL character in it", "remove it")
			ok = false
		case i == 0 && strings.TrimSpace(s.text) == "":
			r.problem(item, "the name of the command is empty", runExample)
			ok = false
		}
		argv[i] = s.text
	}
	return argv, ok
}

// environment reads variables for a command, sorted by name.
func (r *reader) environment(v value) []string {
	const instead = "write it like {LANG: C}"
	entries, _ := r.entries(v, instead, v.named)
	variables := make([]string, 0, len(entries))
	for _, e := range entries {
		switch {
		case !isVariable(e.name):
			r.problem(e.key, quote(e.name)+" is not the name of an environment variable", "write letters, digits and underscores")
		case strings.HasPrefix(e.name, "LOCKKEEPER_") || e.name == "TRACEPARENT":
			r.problem(e.key, e.name+" is set by lockkeeper itself", "remove it")
		}
		s, ok := r.scalar(e.value, `write a text; "" for an empty one`)
		if ok && strings.ContainsRune(s.text, 0) {
			r.problem(e.value, s.quoted()+" has a NUL character in it", "remove it")
		}
		variables = append(variables, e.name+"="+s.text)
	}
	slices.Sort(variables)
	return variables
}

func (r *reader) directory(v value) string {
	name, ok := r.text(v, "write the name of a directory")
	if !ok {
		return ""
	}
	path := r.resolve(name)
	switch info, err := os.Stat(path); {
	case err != nil:
		r.warn(v, fmt.Sprintf("%q cannot be found: %v", path, plainCause(err)), "make the directory before the job runs")
	case !info.IsDir():
		r.problem(v, fmt.Sprintf("%q is not a directory", path), "name a directory")
	}
	return path
}
