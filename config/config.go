package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// Config is a configuration file, read and checked.
type Config struct {
	// Approvals says what becomes of polite requests whose holders do not finish
	// their cleanup in time.
	Approvals Approvals

	// Audit says how the audit trail is kept.
	Audit Audit

	// Classes are the named priorities.
	Classes map[string]priority.Level

	// Client says how to reach ZooKeeper. Its defaults are filled in, except
	// for Servers and Root, which are empty when the file names none: the
	// program may know better.
	Client lock.Config

	// Console says where the daemon shows its console.
	Console Console

	// Defaults are what jobs have that do not say otherwise. They are applied
	// to Jobs already.
	Defaults Defaults

	// Drain says what happens when the daemon stops, with its defaults filled
	// in. What the file says is 0 is negative here, as the scheduler has it.
	Drain scheduler.Drain

	// Emergency says where operators' overrides come from.
	Emergency Emergency

	// Ensembles have the locks of some scopes, by name; Client reaches the one that has
	// all others, and everything else.
	Ensembles []Ensemble

	// File is the name that was given to Load or Parse.
	File string

	// Groups are the lock groups, in the order of the file. Each is valid, with
	// its defaults filled in.
	Groups []group.Spec

	// Jobs are in the order of the file. Each is valid. A file with groups may
	// have none.
	Jobs []jobs.Job

	// Log says how the daemon writes its log.
	Log Log

	// Metrics says where the daemon shows its metrics.
	Metrics Metrics

	// Scheduler says how the daemon shares its jobs with others.
	Scheduler Scheduler

	// Scopes are the documented scopes, by name. When there are any, jobs use
	// no others.
	Scopes []Scope

	// Secrets are the files with passwords and private keys that the file names.
	Secrets []string

	// Schedules are those of Jobs that the Temporal server starts at their times,
	// and not the daemon.
	Schedules []temporal.Schedule

	// TemporalSchedules says how these are kept there.
	TemporalSchedules TemporalSchedules

	// StateDir is where the daemon keeps what is of this machine alone. Empty:
	// nowhere.
	StateDir string

	// Temporal says how to reach the Temporal server. Its zero values are
	// defaults.
	Temporal temporal.Options

	// Warnings are what works, but perhaps not as meant; by line and column.
	Warnings []Problem

	read    contents
	client  temporalClient    // of the Temporal server, if a job needs it
	recipes map[string]recipe // what each job runs, by its name
}

// String names the file and says how much is in it: what jobs send along and
// have in their environment may be secret.
func (c Config) String() string {
	return fmt.Sprintf("configuration %s: %d jobs, %d groups", c.File, len(c.Jobs), len(c.Groups))
}

// Format writes String, whatever the verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue returns String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Options are what a file cannot say.
type Options struct {
	// Env looks up environment variables. Defaults to os.LookupEnv.
	Env func(name string) (value string, set bool)

	// Funcs are the Go functions that jobs can run, by the name that the file
	// has after "go:". A jobs.Func is one.
	Funcs map[string]jobs.Work

	// Strategies are the names of strategies of the program's own that groups
	// can have beside those of package assignment.
	Strategies []string

	// TemporalSchedules makes jobs that start workflows schedules of the Temporal
	// server, as temporal.schedules in the file does.
	TemporalSchedules bool

	previous *Config // whose Temporal client goes on
}

// Load reads the file with the given name. If anything is wrong with it, the
// error is an *Errors with all of it.
//
// Every value may have environment variables in it, ${NAME} or
// ${NAME:-default}; $${ stands for a plain ${. Anchors, aliases and merge keys
// work; a problem behind an alias is reported at the alias, unless the anchor has
// it too. Files are looked for in the directory of the configuration file.
// After an error of syntax the job or section that has it is left out and the
// rest is checked all the same.
//
// Hostile files do no harm: what is too large, nested too deeply or repeated
// by aliases too often is refused.
func Load(name string, opts Options) (*Config, error) {
	read := readFile
	if opts.previous != nil {
		read = readAgain
	}
	data, err := read(name)
	if err != nil {
		seen := contents{}
		seen.add(name, nil, err)
		return nil, &Errors{Problems: []Problem{unreadFile(name, err)}, read: seen}
	}
	return Parse(name, data, opts)
}

// unreadFile is what is wrong with a file that cannot be read.
func unreadFile(name string, err error) Problem {
	return Problem{
		File: name, What: fmt.Sprintf("the file cannot be read: %v", plainCause(err)), Instead: anotherFile(err),
	}
}

// Parse reads a configuration from data. Files that it names are looked for in
// the directory of name. If anything is wrong, the error is an *Errors with
// all of it.
func Parse(name string, data []byte, opts Options) (*Config, error) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	src := readSource(data)
	r := &reader{
		decoder: newDecoder(src, opts.Env), dir: filepath.Dir(name), works: opts.Funcs, strategies: opts.Strategies,
		read: contents{}, previous: opts.previous, pushed: opts.TemporalSchedules,
	}
	r.read.add(name, data, nil)
	cfg := r.config(src)
	problems, warnings := r.collect(name)
	for _, p := range src.problems {
		p.File = name
		problems = append(problems, p)
	}
	sortProblems(problems)
	sortProblems(warnings)
	if len(problems) > 0 {
		r.closeClient()
		return nil, &Errors{Problems: problems, Warnings: warnings, read: r.read}
	}
	cfg.File, cfg.Warnings, cfg.read = name, warnings, r.read
	cfg.client = r.client
	return cfg, nil
}

var fileShape = shape{
	name:    "the file",
	example: "write a mapping with version, zookeeper and jobs",
	keys: []key{
		needed(apart("version", wholeNumber(1, 1), "", "The version of this format.")),
		compares(&zookeeperShape, apart("zookeeper", like(&zookeeperShape), "", "How to reach ZooKeeper.")),
		compares(&temporalShape,
			apart("temporal", like(&temporalShape), "", "How to reach the Temporal server, for jobs that start workflows.")),
		compares(&prioritiesShape,
			apart("priorities", like(&prioritiesShape), "", "Priorities by name, and who may preempt whom.")),
		apart("defaults", like(&defaultsShape), "", "What jobs have that do not say otherwise."),
		compared(apart("scopes", named(like(&scopeShape)), "",
			"What the locks protect. Once there is a scope here, jobs can use no others."),
			func(c *Config) []Scope { return c.Scopes }, nil),
		apart("jobs", named(like(&jobShape)), "", "The jobs, by name."),
		compared(apart("groups", someOf(like(&groupShape)), "", "Locks that are spread over the processes that join."),
			func(c *Config) []group.Spec { return c.Groups }, nil),
		in("scheduler", &schedulerShape, "How the daemons share the jobs.",
			func(c *Config) *Scheduler { return &c.Scheduler }, (*reader).checkScheduler),
		in("drain", &drainShape, "What happens when the daemon stops.", func(c *Config) *scheduler.Drain { return &c.Drain },
			func(r *reader, o object, _ *scheduler.Drain) { r.drainFinish = o.get("finish") }),
		by("drain_timeout", aDuration, scheduler.DefaultDrainFinish, "Short for drain.finish.", (*reader).shortDrain),
		to("state_dir", of[string]{kind: aFile, read: (*reader).stateDir}, "",
			"A directory for what the daemon keeps on this machine; without it, nothing.",
			func(c *Config) *string { return &c.StateDir }),
		in("emergency", &emergencyShape, "Where operators' overrides come from.",
			func(c *Config) *Emergency { return &c.Emergency }),
		compared(in("approvals", &approvalsShape,
			"What becomes of polite requests whose holders do not finish their cleanup in time.",
			func(c *Config) *Approvals { return &c.Approvals }, func(_ *reader, _ object, a *Approvals) { a.Asked = true }),
			func(c *Config) bool { return c.Approvals.Asked }, given),
		in("audit", &auditShape, "How the audit trail is kept.", func(c *Config) *Audit { return &c.Audit }),
		in("metrics", &metricsShape,
			"Where the daemon shows its metrics; without it, nowhere.", func(c *Config) *Metrics { return &c.Metrics }),
		in("console", &consoleShape,
			"Where the daemon shows its console, and what people can do there; without it, nowhere.",
			func(c *Config) *Console { return &c.Console }, (*reader).checkConsole),
		in("log", &logShape, "How the daemon writes its log.", func(c *Config) *Log { return &c.Log }),
	},
	any: []string{"jobs", "groups"},
	later: []string{
		"observability", "tracing", "otlp", "admin", "hooks", "include",
	},
	hints: map[string]string{
		"logging": `did you mean "log"?`, "ui": `did you mean "console"?`, "web": `did you mean "console"?`,
		"dashboard": `did you mean "console"?`,
		"zk":        `did you mean "zookeeper"?`, "group": `did you mean "groups"?`, "locks": "locks belong to jobs",
		"overrides": "write them into a file of their own, and its name in emergency: {file: ...}",
		"approval":  `did you mean "approvals"?`,
		"data_dir":  `did you mean "state_dir"?`, "prometheus": `did you mean "metrics"?`,
		"health": "where metrics are shown, /healthz is, too: write metrics: {listen: " + quote(exampleListen) + "}",
	},
}

// config reads the sections, what others need first.
func (r *reader) config(src source) *Config {
	cfg := &Config{}
	r.cfg = cfg
	fileShape.preset(cfg)
	start := value{line: 1, column: 1}
	if src.root == nil {
		r.missing(start, "the file is empty", fileShape.example)
		return cfg
	}
	root := r.use(src.root, "", value{})
	if root.exists() && root.node.Kind != yaml.MappingNode {
		r.missing(root, describe(root.node)+" is not a mapping", fileShape.example)
		return cfg
	}
	o, ok := r.object(root, &fileShape)
	if !ok {
		return cfg
	}
	start.node = o.node
	r.version(o, start)
	r.zookeeper(o.get("zookeeper"), cfg)
	r.temporalServer(o.get("temporal"), cfg)
	r.classes = map[string]class{}
	r.section(o.get("priorities"), &prioritiesShape, cfg)
	policies, locks := r.defaults(o.get("defaults"), &cfg.Defaults)
	r.readScopes(o.get("scopes"))
	var entries []jobEntry
	if o.has("jobs") {
		entries = r.readJobs(o.get("jobs"), policies, locks)
	} else if !o.has("groups") {
		r.missing(start, "jobs is missing", jobShape.example)
	}
	cfg.Groups = r.readGroups(o.get("groups"))
	if r.problems() == 0 && !r.torn {
		r.checkJobs(entries)
		r.checkEnsembles(entries, cfg.Ensembles)
		r.adviseScopes(entries)
	}
	r.fill(o, cfg)
	cfg.Secrets = r.secrets

	cfg.Classes = make(map[string]priority.Level, len(r.classes))
	for name, c := range r.classes {
		cfg.Classes[name] = c.level
	}
	cfg.Scopes = slices.SortedFunc(maps.Values(r.scopes), func(a, b Scope) int { return cmp.Compare(a.Name, b.Name) })
	cfg.recipes = make(map[string]recipe, len(entries))
	for _, e := range entries {
		cfg.Jobs = append(cfg.Jobs, e.Job)
		if e.schedule != nil {
			cfg.Schedules = append(cfg.Schedules, *e.schedule)
		}
		cfg.recipes[e.Name] = e.recipe
	}
	return cfg
}

// version checks the version of the format: a later one may mean the same
// words differently.
func (r *reader) version(o object, start value) {
	const instead = "write version: 1"
	v := o.get("version")
	if !o.has("version") {
		r.missing(start, "version is missing", instead)
		return
	}
	if n, ok := r.integer(v, instead); ok && n != 1 {
		r.problem(v, fmt.Sprintf("this version of lockkeeper cannot read version %d", n), instead)
	}
}
