package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/temporal"
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

// kindsOfWork are the keys of which a mapping has one.
var kindsOfWork = []string{"command", "http", "temporal"}

var runShape = shape{
	name:    "run",
	example: runExample,
	keys: []key{
		apart("command", commandKind, "", "The program and its arguments, without a shell."),
		by("env", named(anyText), "", "Environment variables that the command gets beside those of the daemon; "+
			"of these a command with a user gets PATH, TZ, TERM and the language alone.", (*reader).environment),
		to("dir", of[string]{kind: aFile, read: (*reader).directory}, "that of the daemon",
			"The directory the command runs in.", func(c *jobs.Command) *string { return &c.Dir }),
		to("user", text("write a user, for example backup, or backup:staff"), "that of the daemon",
			"Whom the command runs as, for example backup or backup:staff; the daemon has to be root.",
			func(c *jobs.Command) *string { return &c.User }),
		apart("http", like(&httpShape), "", "A request instead of a command."),
		apart("temporal", like(&workflowShape), "", "A workflow to start instead of a command."),
		to("output", aSize, "4KiB", "How much of what the command writes, or of the response, is kept: the end of it.",
			func(c *jobs.Command) *int { return &c.MaxOutput }),
		apart("cleanup", oneOf(commandKind, like(&cleanupShape)), "", "Runs under the lock when the work was interrupted."),
	},
	any:   kindsOfWork,
	later: []string{"stdin", "shell"},
	hints: map[string]string{
		"exec": `did you mean "command"?`, "argv": `did you mean "command"?`, "cmd": `did you mean "command"?`,
		"args": "write them behind the command: [command, argument]", "go": "write run: go:NAME",
		"environment": `did you mean "env"?`, "cwd": `did you mean "dir"?`, "workdir": `did you mean "dir"?`,
		"working_dir": `did you mean "dir"?`,
		"timeout":     "it belongs to the job, beside run", "cleanup_timeout": "it belongs to the lock of the job",
		"url": "write http: {url: ...}", "workflow": "write temporal: {workflow: ...}",
	},
}

var cleanupShape = shape{
	name:    "cleanup",
	example: "write a command as a list, or {http: {url: ...}}",
	keys: []key{
		apart("command", commandKind, "", "The program and its arguments."),
		apart("http", like(&httpShape), "", "A request instead of a command."),
		apart("temporal", like(&workflowShape), "", "A workflow to start instead of a command."),
	},
	any: kindsOfWork,
	hints: map[string]string{
		"env": "it has that of the work", "dir": "it has that of the work", "user": "it has that of the work",
		"timeout": "it is the cleanup_timeout of the lock",
	},
}

// A task is what a job does.
type task struct {
	recipe
	at      value
	command *jobs.Command // if that is what it is
	tidies  value         // where the cleanup is written
	flow    object        // what is written of a workflow, if that is what it is
}

// A recipe is what a job does, such that two of them can be compared.
type recipe struct {
	goName  string    // of a Go function
	main    jobs.Work // nil when it cannot run
	cleanup jobs.Work // runs under the lock when main was interrupted

	byTemporal bool // started by the Temporal server at its times
}

// work returns the task as the jobs package wants it, or nil if it cannot run.
func (t recipe) work() jobs.Work {
	if t.main == nil || t.cleanup == nil {
		return t.main
	}
	return jobs.CleanedBy(t.main, t.cleanup)
}

// equal reports whether two jobs do the same.
func (t recipe) equal(other recipe) bool {
	if t.goName != "" || other.goName != "" {
		return t.goName == other.goName // functions cannot be compared
	}
	return reflect.DeepEqual(t.plain(), other.plain())
}

// plain leaves out what a command has of its locks, and connections.
func (t recipe) plain() recipe {
	t.main, t.cleanup = plainWork(t.main), plainWork(t.cleanup)
	return t
}

func plainWork(work jobs.Work) jobs.Work {
	switch work := work.(type) {
	case *jobs.Command:
		same := *work
		same.CleanupTimeout = 0
		return &same
	case *temporal.StartWorkflow:
		same := *work
		same.Client = nil
		return &same
	}
	return work
}

// run reads what a job does: a command, or the name of a Go function.
func (r *reader) run(v value) task {
	t := task{at: v}
	switch {
	case !r.filled(v, runExample):
	case v.node.Kind == yaml.SequenceNode:
		if argv, ok := r.argv(v); ok {
			t.command = &jobs.Command{Argv: argv}
			t.main = t.command
		}
	case v.node.Kind == yaml.MappingNode:
		r.mapping(v, &t)
	default:
		text, ok := r.text(v, runExample)
		if !ok {
			break
		}
		if name, isGo := strings.CutPrefix(text, goPrefix); isGo {
			t.goName = strings.TrimSpace(name)
			t.main = r.goFunc(v, t.goName)
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
		instead = "this program has " + words.Few(names, fewNames)
	default:
		instead = "register it in the program that loads the file, or " + runExample
	}
	r.problem(v, fmt.Sprintf("no Go function %s is registered", quote(name)), instead)
	return nil
}

// mapping reads a command or a request, and what belongs to it.
func (r *reader) mapping(v value, t *task) {
	command := &jobs.Command{}
	o, ok := r.section(v, &runShape, command)
	if !ok {
		return
	}
	switch r.oneKind(o, "remove one of them, or write two jobs") {
	case "command":
		if command.Argv, ok = r.argv(o.get("command")); ok {
			probe := jobs.Command{Argv: []string{"probe"}, User: command.User}
			r.blamed(probe.Validate(), func(string) value { return o.get("user") })
			t.command, t.main = command, command
		}
	case "http":
		r.notFor(o, "is for commands", "env", "dir", "user")
		if request := r.http(o.get("http"), command.MaxOutput); request != nil {
			t.main = request
		}
	case "temporal":
		r.notFor(o, "is for commands", "env", "dir", "user")
		r.notFor(o, "is for commands and requests", "output")
		if workflow := r.workflow(o.get("temporal")); workflow != nil {
			t.main, t.flow = workflow, r.flow
		}
	case "":
		r.missing(v, "command is missing", "write {command: [/usr/bin/backup, --all]}, or {http: {url: ...}}")
	}
	if o.has("cleanup") {
		t.tidies = o.get("cleanup")
		t.cleanup = r.cleanup(t.tidies, *command)
	}
}

// oneKind returns the first kind of work that a mapping has, and reports the
// others; "" if it has none.
func (r *reader) oneKind(o object, instead string) string {
	first := ""
	for _, kind := range kindsOfWork {
		switch {
		case !o.has(kind):
		case first == "":
			first = kind
		default:
			r.problem(o.entries[kind].key, "there is "+quote(first)+" beside it", instead)
		}
	}
	return first
}

// notFor reports settings of another kind of work.
func (r *reader) notFor(o object, what string, fields ...string) {
	for _, field := range fields {
		if o.has(field) {
			r.problem(o.entries[field].key, field+" "+what, "remove it")
		}
	}
}

// cleanup reads the cleanup. A command runs where, and as whom, the
// one that was interrupted did.
func (r *reader) cleanup(v value, like jobs.Command) jobs.Work {
	argvAt := v
	if r.isMapping(v) {
		o, ok := r.object(v, &cleanupShape)
		if !ok {
			return nil
		}
		switch r.oneKind(o, "remove one of them") {
		case "http":
			if request := r.http(o.get("http"), 0); request != nil {
				return request
			}
			return nil
		case "temporal":
			if workflow := r.workflow(o.get("temporal")); workflow != nil {
				return workflow
			}
			return nil
		case "":
			r.missing(v, "command is missing", cleanupShape.example)
			return nil
		}
		argvAt = o.get("command")
	}
	argv, ok := r.argv(argvAt)
	if !ok {
		return nil
	}
	// The deadline of the hook is the end of its grace: no time after it.
	like.Argv, like.CleanupTimeout = argv, -1
	return &like
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
func (r *reader) environment(v value, c *jobs.Command) {
	const instead = "write it like {LANG: C}"
	entries, _ := r.entries(v, instead, v.named)
	c.AddEnv = make([]string, 0, len(entries))
	for _, e := range entries {
		switch {
		case !isVariable(e.name):
			r.problem(e.key, quote(e.name)+" is not the name of an environment variable",
				"write letters, digits and underscores")
		case strings.HasPrefix(e.name, "LOCKKEEPER_") || e.name == "TRACEPARENT":
			r.problem(e.key, e.name+" is set by lockkeeper itself", "remove it")
		}
		s, ok := r.scalar(e.value, `write a text; "" for an empty one`)
		if ok && strings.ContainsRune(s.text, 0) {
			r.problem(e.value, s.quoted()+" has a NUL character in it", "remove it")
		}
		c.AddEnv = append(c.AddEnv, e.name+"="+s.text)
	}
	slices.Sort(c.AddEnv)
}

func (r *reader) directory(v value) (string, bool) {
	name, ok := r.text(v, "write the name of a directory")
	if !ok {
		return "", false
	}
	path := r.resolve(name)
	switch info, err := os.Stat(path); {
	case err != nil:
		r.warn(v, fmt.Sprintf("%q cannot be found: %v", path, plainCause(err)), "make the directory before the job runs")
	case !info.IsDir():
		r.problem(v, fmt.Sprintf("%q is not a directory", path), "name a directory")
	}
	return path, true
}
