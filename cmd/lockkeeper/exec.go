package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// execFlags are what exec needs to know of the lock.
type execFlags struct {
	scopes   scopes
	priority level
	mode     mode
	lease    duration
	waiting  duration
	cleanup  duration
	acquire  duration
	delay    duration
	forceful yes
	class    string
	message  string
	owner    string
}

const execHelp = `Wait for a lock, run a command while it is held, and give it back.

With several --scope it is all of the locks or none: they are taken in the order
of their names, whatever the order here, so that two such commands never wait for
each other. One that waits releases all it has when it is preempted on
one of its locks, and starts over. The command is stopped when any of its
locks is preempted or lost. The other flags are the same for all; --acquire
counts once.

The command is stopped, with SIGTERM to all the processes of its group, when
a more important request wants the lock, when its lease is over and another request
wants it, or when ZooKeeper is silent for so long that the lock may be lost. It
has --cleanup to clean up, less if a forceful request waits less; then it
gets SIGKILL. The next one starts when no process of the group is left.

If the lock is lost all the same, the command gets SIGKILL at once: another holder
may hold the lock then, and there is nothing that it may still clean up.

Overrides that operators have posted in ZooKeeper count (lockkeeper override): a
frozen request waits outside of the queue, a boosted one goes first. What stands
in the overrides file of the daemons does not, and no override lets the command
run without its lock.

A signal to lockkeeper is passed on to the command, which has --cleanup to end
then; a second signal, a second later or more, is SIGKILL for it. A command that
reads the terminal gets Ctrl-C itself, and lockkeeper does not hear of it. While
waiting, a signal leaves the queue. Without --acquire it waits for ever, unless ZooKeeper does not answer at
all: then it gives up after 5s.

The command finds in its environment:
  LOCKKEEPER_SCOPE, LOCKKEEPER_PRIORITY, LOCKKEEPER_MODE
  LOCKKEEPER_TOKEN           a number that grows with each holder: give it to
                             what the command writes to, and let that refuse a
                             smaller one than it has seen
  LOCKKEEPER_TOKENS          the token of each scope, as JSON; the variables
                             above are about the first --scope
  LOCKKEEPER_LEASE_DEADLINE  when the lease ends (RFC 3339)
  TRACEPARENT                the W3C trace context of the lock, if traces are
                             exported (OTEL_TRACES_EXPORTER, and the other
                             variables of OpenTelemetry); else the one that
                             lockkeeper was started with, if any

Exit code: that of the command if it ended by itself, or
  75     the lock was not acquired, or ZooKeeper does not answer
  76     stopped: preempted, or the lease was over
  77     stopped: the lock was lost, or about to be
  78     wrong flags, or ZooKeeper refuses access
  126    the command cannot be run
  127    the command cannot be found
  128+n  signal n was received, whatever the command made of it, or ended it`

const execExamples = `  # one at a time in the whole cluster
  lockkeeper exec --scope cluster/orders -- ./compact.sh --all

  # if the lock is acquired within a minute
  lockkeeper exec --scope cluster/orders --acquire 1m -- ./report.sh

  # two locks, or none
  lockkeeper exec --scope cluster/orders --scope cluster/users -- ./move.sh

  # now: the holder has 30s to clean up, then the lock is taken from it
  lockkeeper exec --scope cluster/orders --priority 90 --forceful --waiting 30s -- ./hotfix.sh`

func (p *program) exec() *cobra.Command {
	var f execFlags
	file := jobsFile{needed: true} // a lock on another cluster excludes no other process
	c := &cobra.Command{
		Use:     "exec --scope SCOPE... [flags] -- COMMAND [ARG...]",
		Short:   "Run a command under a lock",
		Long:    execHelp,
		Example: execExamples,
	}
	c.RunE = func(c *cobra.Command, args []string) error { return p.execUnder(c, &f, file, args) }
	f.add(c)
	file.add(c)
	return c
}

func (f *execFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.VarP(&f.scopes, "scope", "s",
		"what the lock protects, for example cluster/orders; several times for several locks")
	flags.VarP(&f.priority, "priority", "p",
		"who is more important goes first and may preempt; 0 (default, lowest) to 2147483646")
	flags.Var(&f.mode, "mode", "exclusive (default), or shared: together with other shared ones")
	f.lease.positive, f.lease.term = "10m", true
	flags.Var(&f.lease, "lease", "how long the command needs; after it, any waiter can preempt it (default 10m)")
	flags.Var(&f.cleanup, "cleanup", "how long the command has from SIGTERM to SIGKILL (default 10s)")
	flags.Var(&f.acquire, "acquire", "how long to wait for the lock; 0: take it only if it is free (default for ever)")
	flags.Var(&f.waiting, "waiting", "how long to wait for the cleanup of a preempted holder (default for ever)")
	flags.Var(&f.delay, "lock-delay",
		"how long the lock is not granted if this program dies before the command has ended (default 0)")
	flags.VarPF(&f.forceful, "forceful", "",
		"take the lock when the holder's time to clean up is over").NoOptDefVal = "true"
	flags.StringVar(&f.owner, "owner", "",
		"`who` has the lock, for people and for overrides (--job NAME there; default the name of the command)")
	flags.StringVar(&f.class, "class", "", "what the lock is `counted` under where many are, "+
		"if its scope is made from variables, for example tenant/{id} (default the scope)")
	flags.StringVarP(&f.message, "message", "m", "", "why the lock is held, for people")
}

// execUnder checks all that was given, and runs the command under the locks.
func (p *program) execUnder(c *cobra.Command, f *execFlags, file jobsFile, args []string) error {
	argv := p.argv(c, args)
	requirements := f.requirements(argv)
	for i, r := range requirements {
		r.Class = f.class // not the scope, whose problems would be said twice
		if len(f.scopes) == 0 {
			p.problems.add("--scope is missing; write what the lock protects, a path such as cluster/orders/resource/users")
			r.Scope = "-" // to see its other problems
		}
		p.problems.addRequest(r.Validate(), execFlag)
		if r.Scope != "" && slices.Contains(f.scopes[:i], r.Scope) {
			p.problems.add(fmt.Sprintf("--scope: %q is given twice; give each scope once", r.Scope))
		}
	}
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return &jobs.StartError{Command: argv[0], Err: err}
	}
	return p.execute(c.Context(), cfg, client, requirements, argv)
}

const defaultCleanup = 10 * time.Second

// requirements are alike in all but the scope. Without a scope there is one, for
// its other problems.
func (f *execFlags) requirements(argv []string) []lockguard.Requirement {
	r := lockguard.Requirement{
		Terms: priority.Terms{
			AcquireTimeout: f.acquire.limit(),
			CleanupTimeout: f.cleanup.or(defaultCleanup),
			Forceful:       f.forceful.is,
			LeaseTimeout:   f.lease.or(priority.DefaultLeaseTimeout),
			LockDelay:      f.delay.or(0),
			Mode:           f.mode.is,
			Priority:       f.priority.is,
			WaitingTimeout: f.waiting.limit(),
		},
		Message: f.message,
		Owner:   f.owner,
	}
	if len(argv) > 0 && r.Owner == "" {
		r.Owner = filepath.Base(argv[0])
	}
	if len(f.scopes) == 0 {
		return []lockguard.Requirement{r}
	}
	all := make([]lockguard.Requirement, 0, len(f.scopes))
	for _, r.Scope = range f.scopes {
		r.Class = cmp.Or(f.class, r.Scope)
		all = append(all, r)
	}
	return all
}

// execFlag is how the flag for a field of a Requirement is spelt.
func execFlag(field string) string {
	switch field {
	case "acquire_timeout":
		return "--acquire"
	case "cleanup_timeout":
		return "--cleanup"
	case "lease_timeout":
		return "--lease"
	case "lock_delay":
		return "--lock-delay"
	case "waiting_timeout":
		return "--waiting"
	}
	return "--" + field
}

// argv returns the command, which comes after "--".
func (p *program) argv(c *cobra.Command, args []string) []string {
	const write = `write it after "--": lockkeeper exec --scope cluster/orders -- COMMAND [ARG...]`
	dash := c.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) > 0:
		p.problems.add(`the command is not separated from the flags; ` + write)
	case dash > 0 && !p.unclear:
		p.checkArgs(c, args[:dash], nil)
	}
	if len(args) == max(dash, 0) {
		p.problems.add("the command is missing; " + write)
	}
	return args[max(dash, 0):]
}

// execute runs argv under the locks. file may be nil; it says which locks are on other
// ensembles.
func (p *program) execute(
	ctx context.Context, file *config.Config, cfg lock.Config, requirements []lockguard.Requirement, argv []string,
) (err error) {
	exports := p.telemetry(ctx)
	defer exports.end() // when the locks are away
	ctx, ended := exports.root(ctx, "exec", filepath.Base(argv[0]))
	defer func() { ended(exitCode(err)) }()
	// In a container no other process reaps the orphans of the command.
	if err := jobs.Subreaper(); err != nil {
		p.quiet().Warn("orphans of the command are left to others", "error", err)
	}
	received := make(chan os.Signal, 16)
	signal.Notify(received, passedOn()...)
	defer signal.Stop(received)

	cfg.Logger = p.quiet()
	client, err := lock.NewClient(cfg)
	if err != nil {
		return err
	}
	defer closeClient(client)
	elsewhere := &config.Config{Client: cfg}
	if file != nil {
		elsewhere.Ensembles = file.Ensembles
	}
	router, closeEnsembles, err := route(client, elsewhere)
	if err != nil {
		return err
	}
	defer closeEnsembles()
	overrides, err := p.obey(ctx, client)
	if err != nil {
		return err
	}
	defer overrides.end()
	measured, exported, err := exports.measured(client)
	if err != nil {
		return err
	}
	defer exported()
	guard, err := p.execGuard(router, overrides, exports, measured...)
	if err != nil {
		return err
	}
	command := p.execCommand(argv, requirements[0].CleanupTimeout, received)
	ctx, queue := waitInQueue(ctx, received)
	defer queue.leave()
	if err := overrides.ready(ctx, requirements); err != nil {
		return refused(requirements, err)
	}
	var ran bool
	var result error
	err = guard.DoAll(ctx, requirements, func(ctx context.Context) error {
		queue.leave()
		ran = true
		defer holdStill()()
		result = command.Run(ctx, jobs.Run{Logger: p.quiet()})
		return result
	})
	if !ran {
		return refused(requirements, err)
	}
	return finished(result, err)
}

func (p *program) execCommand(argv []string, cleanup time.Duration, received <-chan os.Signal) *jobs.Command {
	if cleanup == 0 {
		cleanup = -1 // no time at all
	}
	return &jobs.Command{
		Argv: argv, CleanupTimeout: cleanup, Signals: received,
		Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr,
	}
}

func (p *program) execGuard(
	router *lock.Router, overrides *obedience, exports *telemetry, more ...lockguard.Option,
) (*lockguard.Guard, error) {
	observer := p.narrate
	if p.logging.on() {
		observer = lockguard.LogObserver(p.quiet())
	}
	options := slices.Concat(overrides.options(),
		[]lockguard.Option{lockguard.WithObserver(observer), lockguard.WithLogger(p.quiet())}, more)
	if exports.on {
		return lockguard.NewRouted(router, append(options, exports.tracer(p.quiet()).Options()...)...)
	}
	traceparent := regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	if trace := os.Getenv("TRACEPARENT"); traceparent.MatchString(trace) {
		options = append(options, lockguard.WithTrace(func(context.Context, lockguard.Subject) string { return trace }))
	}
	return lockguard.NewRouted(router, options...)
}
