package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func (p *program) locks() *cobra.Command {
	c := &cobra.Command{
		Use:   "locks",
		Short: "Show who holds locks and who waits for them, say why, and take them away",
	}
	p.group(c)
	c.AddCommand(p.locksLs(), p.locksShow(), p.locksWhy(), p.locksTimeline(), p.locksPreempt(), p.locksBreak())
	return c
}

func (p *program) locksLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List all locks",
		Long: `List all locks: who holds them, for how long, and how many wait.

A lock is listed from its first use on, also while it is free. Times are those
of the ZooKeeper servers. When the lease of a holder is over it keeps the lock
until somebody asks for it.

With -o json and -o yaml each waiter has why it waits, in words, and for whom
(blockers), and each lock who is at the root of it (root_blocker): at the end of
all that is waited for, over several locks where the work of a holder waits for
another one; in_circle says that there is no such one.

Exit code 75 if ZooKeeper does not answer.`,
		Example: `  lockkeeper locks ls
  lockkeeper locks ls -o wide
  lockkeeper locks ls -o json | jq -r '.[] | select(.state == "held") | .scope'
  lockkeeper locks ls -o json | jq -r '.[] | select(.root_blocker) | [.scope, .root_blocker.owner] | @tsv'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listLocks(c, file) })
	file.add(c)
	return c
}

func (p *program) locksShow() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "show SCOPE",
		Short: "Show one lock: its holders, its queue, who preempts whom and until when",
		Long: `Show one lock: who holds it, who waits for it in which order, whom an override
keeps out of the queue (frozen), who asks the holder to go, and until when the
holder may clean up.

A scope that was never locked is free.

Exit code 75 if ZooKeeper does not answer, 78 for a scope that cannot be.`,
		Example: `  lockkeeper locks show cluster/orders`,
	}, []string{"SCOPE"}, func(c *cobra.Command, args []string) error { return p.showLock(c, file, args) })
	file.add(c)
	return c
}

func (p *program) listLocks(c *cobra.Command, file jobsFile) error {
	_, cfg, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var states []recipes.LockState
	var left []recipes.Unreadable
	err = p.inspectWith(c.Context(), cfg, func(ctx context.Context, client *recipes.Client) (err error) {
		states, left, err = client.Locks(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer p.tellUnreadable(left)
	if len(states) == 0 && len(left) == 0 {
		p.say("there are no locks under this root; a lock is listed from its first use on")
		if p.forPeople() {
			return nil
		}
	}
	return p.write(live.NewLocks(states), func(w io.Writer, wide bool) {
		writeCluster(w, cfg)
		writeLocks(w, states, wide)
	})
}

func (p *program) showLock(c *cobra.Command, file jobsFile, args []string) error {
	if len(args) == 1 {
		_, err := recipes.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "SCOPE" })
	}
	var state recipes.LockState
	var frozen []live.Request
	err := p.inspect(c, file, func(ctx context.Context, client *recipes.Client) (err error) {
		if state, err = client.Lock(ctx, args[0]); err != nil {
			return err
		}
		all, left, err := client.Frozen(ctx)
		if err != nil {
			p.say("%v", err)
		}
		state.Unreadable = append(state.Unreadable, left...)
		frozen = live.FrozenFor(args[0], all)
		return nil
	})
	if err != nil {
		return err
	}
	defer p.tellUnreadable(state.Unreadable)
	view := live.Explain(state)
	view.Frozen = frozen
	return p.write(view, func(w io.Writer, wide bool) { writeLock(w, state, frozen, wide) })
}

// inspect lets look read from the ZooKeeper of the daemons.
func (p *program) inspect(c *cobra.Command, file jobsFile, look func(context.Context, *recipes.Client) error) error {
	_, cfg, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	return p.inspectWith(c.Context(), cfg, look)
}

// inspectWith is inspect for those who know how to reach ZooKeeper.
func (p *program) inspectWith(ctx context.Context, cfg recipes.Config, look func(context.Context, *recipes.Client) error) error {
	cfg.Logger = p.quiet()
	client, err := recipes.NewClient(cfg)
	if err != nil {
		return err
	}
	defer closeClient(client)
	ctx, stop := untilSignal(ctx)
	defer stop()
	return look(ctx, client)
}

// untilSignal returns a context that ends, with a *jobs.SignalError as its
// cause, when the program is told to stop.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-received:
			cancel(&jobs.SignalError{Signal: sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
	}
}

func (p *program) forPeople() bool { return p.output.is == "table" || p.output.is == "wide" }

// owners names holders on one line.
func owners(all []recipes.Contender) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Owner
	}
	return strings.Join(names, ", ")
}

// fewOwners is owners for a column of a table.
func fewOwners(all []recipes.Contender) string {
	const few = 5
	if len(all) <= few+1 {
		return owners(all)
	}
	return fmt.Sprintf("%s and %d more", owners(all[:few]), len(all)-few)
}
