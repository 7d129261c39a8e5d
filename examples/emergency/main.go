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

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// patience is how long all of it may take, on the slowest machine.
const patience = 30 * time.Second

// run runs the example, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("emergency", flag.ContinueOnError)
	flags.SetOutput(stderr)
	zk := flags.String("zk", "", "`servers` of a ZooKeeper to use instead of one in memory: host:port[,host:port...]")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if _, err := show(ctx, *zk, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "emergency:", err)
		return 1
	}
	return 0
}

// show plays the story on these servers, or on one in memory if there are none.
func show(ctx context.Context, zk string, out io.Writer) (end ending, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not at its end within %s", patience))
	defer cancel()
	var cfg lock.Config
	if zk != "" {
		if cfg.Servers, cfg.Chroot, err = lock.ParseServers(zk); err != nil {
			return end, err
		}
		return playOn(ctx, cfg, out)
	}
	server, err := zktest.Start(zktest.TickTime(500 * time.Millisecond))
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	cfg.Servers = []string{server.Addr()}
	return playOn(ctx, cfg, out)
}
