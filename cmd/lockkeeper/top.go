package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/top"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type topFlags struct {
	file jobsFile
	once yes
	span duration
}

func (p *program) top() *cobra.Command {
	f := &topFlags{}
	c := p.command(&cobra.Command{
		Use:   "top",
		Short: "Watch all locks in the terminal, as they change",
		Long: `Watch all locks in the terminal: who holds them since when, what is left of the
lease, how many wait and how long, and who is at the root of it. What changes shows
within half a second. Nothing is written to ZooKeeper, and nothing is asked of it
while nothing happens.

Keys: arrows or j and k move, Enter opens a lock (holders, queue with why each one
waits, timeline), Esc goes back, s sorts, r reverses, / filters, ? helps, q leaves.

Where stdout or stdin is no terminal, or with --once, -o json or -o yaml, it shows
all locks once, as they are; JSON and YAML are those of locks ls. Colours are left
out if NO_COLOR is set.

With zookeeper.ensembles in the file it shows the locks of all of them, and which is
on which.

Exit code 75 if ZooKeeper, or one of the ensembles, does not answer and it shows them
once. While it watches, it says since when that does not, and goes on looking.`,
		Example: `  lockkeeper top
  lockkeeper top --for 10m
  lockkeeper top --once`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.showTop(c, f) })
	flags := c.Flags()
	flags.SortFlags = false
	flags.VarPF(&f.once, "once", "", "show all locks once, and end").NoOptDefVal = "true"
	f.span.positive = "10m"
	f.file.add(c)
	flags.Var(&f.span, "for", "how long to watch at most (default until q)")
	return c
}

func (p *program) showTop(c *cobra.Command, f *topFlags) error {
	if f.once.is && f.span.given {
		p.problems.add("--for has no meaning with --once; leave one of them out")
	}
	cfg, client, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	out, ok := p.stdout.(*os.File)
	if f.once.is || !p.forPeople() || !ok || !fullScreen(p.stdin, out) {
		return p.topOnce(c.Context(), ensemblesOf(cfg, client))
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	if f.span.given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.span.d, errTopOver)
		defer cancel()
	}
	logger := p.quiet()
	if e, ok := p.stderr.(*os.File); ok && term.IsTerminal(int(e.Fd())) {
		logger = slog.New(slog.DiscardHandler) // it would write over the table
	}
	boards := topBoards{route: cfg}
	for _, e := range ensemblesOf(cfg, client) {
		e.config.Logger = logger
		if e.client, err = lock.NewClient(e.config); err != nil {
			return e.explain(err)
		}
		defer closeClient(e.client)
		lookout, err := e.client.Lookout(lock.LookoutOptions{})
		if err != nil {
			return e.explain(err)
		}
		board, err := live.New(live.Options{Source: lookout, Now: e.client.Now})
		if err != nil {
			return err
		}
		boards.all = append(boards.all,
			topBoard{Board: board, ensemble: e.name, is: e.is, now: e.client.Now, over: new(atomic.Pointer[live.Blind])})
	}
	return watchTop(ctx, boards, p.stdin, out, topLook())
}

// fullScreen reports whether there is a terminal that can be drawn on.
func fullScreen(in, out *os.File) bool {
	return in != nil && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}

// topLook is what the terminal can do, as far as the environment says.
func topLook() top.Look {
	look := top.Look{Attributes: true, Colour: os.Getenv("NO_COLOR") == ""}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			look.ASCII = !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
			break
		}
	}
	return look
}

// topOnce shows all locks as they are.
func (p *program) topOnce(ctx context.Context, all ensembles) error {
	found, missing, err := p.lookAtLocks(ctx, all)
	if err != nil {
		return err
	}
	defer p.tellUnreadable(unreadableIn(found))
	return errors.Join(p.write(lockViews(found), func(w io.Writer, _ bool) {
		parts := make([]live.Part, len(found))
		for i, one := range found {
			parts[i] = live.Part{Ensemble: one.ensemble, Seen: live.NewSnapshot(one.states, one.now)}
		}
		s := live.Together(parts)
		if missing != nil {
			s.Blind = &live.Blind{Since: s.At, Reason: strings.ReplaceAll(errors.Unwrap(missing).Error(), "\n", "; ")}
		}
		_, _ = io.WriteString(w, top.Text(s))
	}), missing)
}
