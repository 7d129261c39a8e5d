package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
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
until another request wants it.

With -o json and -o yaml each waiter has why it waits, in words, and for whom
(blockers), and each lock who is at the root of it (root_blocker): at the end of
all that is waited for, over several locks where the work of a holder waits for
another one; in_circle says that there is no such one.

With zookeeper.ensembles in the file it lists the locks of all of them, and which
is on which; that of zookeeper.servers is called home.

Exit code 75 if ZooKeeper does not answer, also if only one of the ensembles does
not: it is named, and the locks of the others are listed.`,
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
keeps out of the queue (frozen), who preempts the holder, and until when the
holder may clean up.

A scope that was never locked is free. With zookeeper.ensembles in the file it is
looked for on the ensemble that has it.

Exit code 75 if ZooKeeper does not answer, 78 for a scope that cannot be.`,
		Example: `  lockkeeper locks show cluster/orders`,
	}, []string{"SCOPE"}, func(c *cobra.Command, args []string) error { return p.showLock(c, file, args) })
	file.add(c)
	return c
}

func (p *program) listLocks(c *cobra.Command, file jobsFile) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	all := ensemblesOf(cfg, client)
	found, missing, err := p.lookAtLocks(c.Context(), all)
	if err != nil {
		return err
	}
	left := unreadableIn(found)
	defer p.tellUnreadable(left)
	views := lockViews(found)
	if len(views) == 0 && len(left) == 0 && missing == nil {
		p.say("there are no locks under this root; a lock is listed from its first use on")
		if p.forPeople() {
			return nil
		}
	}
	return errors.Join(p.write(views, func(w io.Writer, wide bool) {
		all.write(w)
		writeLocks(w, found, wide)
	}), missing)
}

// lookAtLocks looks at all locks of all ensembles; missing is about those that could
// not be looked at where others could.
func (p *program) lookAtLocks(ctx context.Context, all ensembles) (found []ensembleLocks, missing, err error) {
	err = p.withEnsembles(ctx, all, func(ctx context.Context, all ensembles) (err error) {
		found, err = all.locks(ctx)
		return err
	})
	if err != nil && len(found) > 0 {
		return found, &partialError{err}, nil
	}
	return found, nil, err
}

func (p *program) showLock(c *cobra.Command, file jobsFile, args []string) error {
	if len(args) == 1 {
		_, err := lock.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "SCOPE" })
	}
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var state lock.State
	var frozen []live.Request
	where := ""
	err = p.withLock(c.Context(), cfg, client, args[0], func(
		ctx context.Context, here *ensemble, home *lock.Client,
	) (err error) {
		where = here.name
		if state, err = here.client.Lock(ctx, args[0]); err != nil {
			return here.explain(err)
		}
		all, left, err := home.Frozen(ctx)
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
	view.Frozen, view.Ensemble = frozen, where
	return p.write(view, func(w io.Writer, wide bool) { writeLock(w, state, where, frozen, wide) })
}

// inspect lets look read from the ZooKeeper of the daemons.
func (p *program) inspect(c *cobra.Command, file jobsFile, look func(context.Context, *lock.Client) error) error {
	_, cfg, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	return p.inspectWith(c.Context(), cfg, look)
}

// withLock lets look read the lock of a scope from the ensemble that has it; home has
// what is not on that.
func (p *program) withLock(ctx context.Context, cfg *config.Config, client lock.Config, scope string, look func(
	ctx context.Context, here *ensemble, home *lock.Client,
) error,
) error {
	all := ensemblesOf(cfg, client)
	here := all.of(cfg, scope)
	both := all[:1]
	if here != &all[0] {
		both = ensembles{all[0], *here}
	}
	return p.withEnsembles(ctx, both, func(ctx context.Context, both ensembles) error {
		return look(ctx, &both[len(both)-1], both[0].client)
	})
}

// inspectWith is inspect for those who know how to reach ZooKeeper.
func (p *program) inspectWith(
	ctx context.Context, cfg lock.Config, look func(context.Context, *lock.Client) error,
) error {
	cfg.Logger = p.quiet()
	client, err := lock.NewClient(cfg)
	if err != nil {
		return err
	}
	defer closeClient(client)
	ctx, stop := untilSignal(ctx)
	defer stop()
	return look(ctx, client)
}

// untilSignal returns a context that ends, with a *jobs.SignalError as its
// cause, at a signal to stop.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	signal.Notify(received, toStop()...)
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
func owners(all []lock.Contender) string {
	return words.Join(all, ", ", func(c lock.Contender) string { return c.Owner })
}

// fewOwners is owners for a column of a table.
func fewOwners(all []lock.Contender) string {
	const few = 5
	if len(all) <= few+1 {
		return owners(all)
	}
	return fmt.Sprintf("%s and %d more", owners(all[:few]), len(all)-few)
}
