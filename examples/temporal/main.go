package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// patience is how long the story may take, on the slowest machine.
const patience = 90 * time.Second

// settings are what the flags say.
type settings struct {
	zk       string // "": one in memory
	temporal string // "": one of our own
	ui       bool
}

// run runs the example, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	flags := flag.NewFlagSet("temporal", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.zk, "zk", "", "`servers` of a ZooKeeper to use instead of one in memory: host:port[,host:port...]")
	flags.StringVar(&s.temporal, "temporal", "",
		"`address` of a Temporal server to use instead of one that is started: host:port")
	flags.BoolVar(&s.ui, "ui", false, "serve Temporal's web interface as well, and wait for Ctrl-C at the end")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case s.ui && s.temporal != "":
		_, _ = fmt.Fprintln(stderr,
			"temporal: --ui is for a server that is started here; leave out one of --ui and --temporal")
		return 2
	}
	if _, err := show(ctx, s, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "temporal:", err)
		return 1
	}
	return 0
}

// show plays the story on these servers, and starts those that are missing.
func show(ctx context.Context, s settings, out io.Writer) (end ending, err error) {
	var zk lock.Config
	if s.zk != "" {
		if zk.Servers, zk.Chroot, err = lock.ParseServers(s.zk); err != nil {
			return end, err
		}
	} else {
		server, err := zktest.Start()
		if err != nil {
			return end, err
		}
		defer func() { _ = server.Close() }()
		zk.Servers = []string{server.Addr()}
	}
	ui := ""
	if s.temporal == "" {
		server, err := devserver.Run(ctx, devserver.Settings{UI: s.ui})
		if err != nil {
			return end, err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		s.temporal, ui = server.Addr(), server.UI()
	}
	service, err := temporal.NewClient(temporal.Options{Address: s.temporal})
	if err != nil {
		return end, err
	}
	defer service.Close()

	_, _ = fmt.Fprintf(out,
		"\n  A migration of the orders, which is a workflow, and a repair, which is not, need the lock %s.\n\n",
		migration.Scope)
	limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not at its end within %s", patience))
	defer cancel()
	if end, err = play(limited, zk, service, out); err != nil {
		return end, err
	}
	_, _ = fmt.Fprintf(out,
		"\n  The repair has waited %s for the migration to undo what it had begun. The run that completed has %d events.\n",
		end.waited.Round(time.Millisecond), end.events)
	if ui != "" {
		_, _ = fmt.Fprintf(out, "\n  The workflow: %s/namespaces/default/workflows/%s\n  Ctrl-C ends the servers.\n",
			ui, end.workflow)
		<-ctx.Done()
	}
	return end, nil
}
