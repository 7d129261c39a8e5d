package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type groupJoinFlags struct {
	file, group, name string
	timeout           duration
}

//nolint:funlen // the command and its flags
func (p *program) groupJoin() *cobra.Command {
	f := &groupJoinFlags{}
	c := &cobra.Command{
		Use:   "join [-- COMMAND [ARG...]]",
		Short: "Join a lock group and hold a share of its locks",
		Long: `Join a lock group of a configuration file, and hold a share of its locks until a
signal comes. What the file says of the group is applied to all who are there.

With a command, it runs once for each lock that is held, in a process group of
its own. When the lock moves to another participant, the group gets SIGTERM, and
SIGKILL when cleanup_timeout is over; the lock moves when no process of it is left.
When the lock is lost, it gets SIGKILL at once. A command that ends by itself is
not started again: the lock is kept.

The command finds in its environment:
  LOCKKEEPER_GROUP, LOCKKEEPER_LOCK
  LOCKKEEPER_TOKEN  a number that grows with each holder of the lock: give it
                    to what the command writes to, and let that refuse a
                    smaller one than it has seen

SIGTERM, SIGINT and SIGHUP leave: all locks are released and go to others. Exit
code 0. A second signal, a second later or more, stops at once: commands are
killed, and the locks are freed when the ZooKeeper session ends.

Exit code 75 if it could not join in time, 78 for a file that cannot be used.`,
		Example: `  lockkeeper group join -f lockkeeper.yaml --group lock-group
  lockkeeper group join --group shards --name worker-1 -- ./serve-shard.sh`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		argv := p.groupArgv(c, args)
		cfg, err := p.daemonConfig(c, f.file)
		if err != nil {
			return err
		}
		spec, err := groupSpec(cfg, f.group)
		if err != nil {
			return err
		}
		if len(argv) > 0 {
			if _, err := exec.LookPath(argv[0]); err != nil {
				return &jobs.StartError{Command: argv[0], Err: err}
			}
		}
		name := f.name
		if name == "" {
			if name, err = os.Hostname(); err != nil {
				return &usageError{command: c.CommandPath(), problems: problems{
					fmt.Sprintf("--name is missing, and this host has no name: %v", err),
				}}
			}
		}
		return p.joinGroup(c.Context(), cfg, spec, name, argv, f.timeout.or(30*time.Second))
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "file", "f", defaultFile, "configuration `file`")
	flags.StringVar(&f.group, "group", "", "`name` of the group; may be left out if the file has one only")
	flags.StringVar(&f.name, "name", "", "`name` of this participant, no two alike; "+
		"who comes back under the same name soon keeps its locks (default the host's name)")
	f.timeout.positive = "30s"
	flags.Var(&f.timeout, "timeout", "how long to try to join, also while the name is taken (default 30s)")
	return c
}

// groupArgv returns the command, which may be left out.
func (p *program) groupArgv(c *cobra.Command, args []string) []string {
	dash := c.ArgsLenAtDash()
	if dash < 0 {
		p.checkArgs(c, args, nil)
		return nil
	}
	p.checkArgs(c, args[:dash], nil)
	if len(args) == dash {
		p.problems.add(`the command is missing; write it after "--", or leave "--" out`)
	}
	return args[dash:]
}

// joinGroup takes part until a signal comes.
func (p *program) joinGroup(
	ctx context.Context, cfg *config.Config, spec group.Spec, name string, argv []string, timeout time.Duration,
) (err error) {
	exports := p.telemetry(ctx)
	flush := exports.end
	defer func() { flush() }() // when the locks are away
	ctx, ended := exports.root(ctx, "group.join", runs(argv))
	defer func() { ended(exitCode(err)) }()
	if len(argv) > 0 {
		if err := jobs.Subreaper(); err != nil {
			p.quiet().Warn("orphans of the commands are left to others", "error", err)
		}
	}
	ctx, again, stop := untilSignals(ctx, p.tellDrain, toStop()...)
	defer stop()
	cfg.Client.Logger = p.quiet()
	client, err := lock.NewClient(cfg.Client)
	if err != nil {
		return err
	}
	_, exported, err := exports.measured(client) // the session: a group's locks are no guard's
	if err != nil {
		return err
	}
	defer func() { exported() }()
	handler := &participant{program: p, name: name, group: spec, spans: newGroupSpans(ctx, exports, spec.Name, name)}
	stopped := make(chan error, 1)
	go func() {
		err := p.participate(ctx, client, handler, argv, timeout)
		closeClient(client)
		stopped <- err
	}()
	select {
	case err := <-stopped:
		return err
	case sig := <-again:
		// The session is not closed: that would free the locks of commands that
		// are only killed by the end of this process.
		flush, exported = func() {}, func() {} // nor is a collector waited for
		p.say("stopping at once (%s); the locks are freed with the ZooKeeper session", sig)
		return &codeError{code: 128 + int(sig)}
	}
}

// runs is what a command that may be left out is called in a trace.
func runs(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return filepath.Base(argv[0])
}

func (p *program) participate(
	ctx context.Context, client *lock.Client, handler *participant, argv []string, timeout time.Duration,
) error {
	spec := handler.group
	group, err := group.New(client.Client, spec, group.Options{Notify: p.groupNotice})
	if err != nil {
		return err
	}
	if len(argv) > 0 {
		handler.command = &jobs.Command{Argv: argv, CleanupTimeout: spec.CleanupTimeout, Stdout: p.stdout, Stderr: p.stderr}
	}
	joining, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	member, err := group.Join(joining, handler.name, handler)
	if refused, ok := errors.AsType[*lock.RequestError](err); ok && refused.Field == "participant" {
		return &usageError{command: "lockkeeper group join", problems: problems{"--name: " + refused.Reason}}
	}
	if err != nil {
		return err
	}
	select {
	case <-member.Done():
		return member.Err()
	case <-ctx.Done():
		return member.Leave(context.WithoutCancel(ctx))
	}
}

// A participant prints what happens to its locks, and runs the command for
// each that it holds.
type participant struct {
	program *program
	name    string
	group   group.Spec
	command *jobs.Command // nil: none
	spans   *groupSpans

	mu sync.Mutex // lines stay whole
}

var _ group.Handler = (*participant)(nil)

func (h *participant) OnLocked(ctx context.Context, grant group.LockGrant) {
	ctx = h.spans.begin(ctx, grant)
	h.tell("acquired", grant.Lock)
	if h.command == nil {
		return
	}
	command := *h.command
	command.Env = append(os.Environ(),
		"LOCKKEEPER_GROUP="+h.group.Name, "LOCKKEEPER_LOCK="+grant.Lock, "LOCKKEEPER_TOKEN="+grant.Token.String())
	if parent := lockguard.Traceparent(ctx); parent != "" {
		command.Env = append(command.Env, "TRACEPARENT="+parent)
	}
	err := command.Run(ctx, jobs.Run{Logger: h.program.quiet(), Lost: group.LockGone(ctx)})
	if _, told := errors.AsType[*jobs.StoppedError](err); told {
		return
	}
	outcome := "has ended"
	if err != nil {
		outcome = err.Error()
	}
	h.program.say("%s keeps lock:%s, though its command does nothing for it any more: %s", h.name, grant.Lock, outcome)
}

func (h *participant) OnReleased(ctx context.Context, name string) {
	h.spans.end(name, group.ReleaseCause(ctx))
	if _, lost := errors.AsType[*lock.LostError](group.ReleaseCause(ctx)); lost {
		h.tell("lost", name)
		return
	}
	h.tell("releasing", name)
}

func (h *participant) OnDropped(_ context.Context, lock string) { h.tell("dropping", lock) }

func (h *participant) tell(what, lock string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = io.WriteString(h.program.stdout, fmt.Sprintf("%s %s lock:%s\n", printable(h.name), what, printable(lock)))
}

// groupNotice tells people what they should know about a group.
func (p *program) groupNotice(notice group.Notice) {
	switch n := notice.(type) {
	case group.StrategyFailed:
		p.say("the strategy %s gave no plan, all stays as it is: %s", n.Strategy, firstLine(n.Err.Error()))
	case group.CleanupOverrun:
		p.say("lock:%s is still being cleaned up after %s; it stays locked until that ends", n.Lock, human(n.After))
	case group.AtRisk:
		p.say("ZooKeeper does not answer; all locks are lost in %s unless it does before", human(time.Until(n.Deadline)))
	case group.Lost:
		p.say("all locks are lost: %v; joining again", n.Err)
	case group.Fault:
		p.say("cannot take part at the moment: %v; trying again", n.Err)
	case group.Panicked, group.Controller, group.RoundDone, group.Joined:
		p.quiet().Debug("group", "notice", fmt.Sprintf("%#v", n))
	}
}
