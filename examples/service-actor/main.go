// Command service-actor runs on several machines and serves on one of them: who
// holds the lock. The others wait; when it goes or is gone, one of them serves.
//
// With github.com/oklog/run in place of an errgroup:
//
//	var group run.Group
//	group.Add(actor.New(guard, requirement, serve, actor.Again()))
//	group.Add(run.SignalHandler(ctx, syscall.SIGTERM))
//	err := group.Run()
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/adapters/actor"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	host, err := os.Hostname()
	if err == nil {
		err = run(ctx, os.Getenv("LOCKKEEPER_ZK"), host, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "service-actor:", err)
		os.Exit(1)
	}
}

// run is one machine, until ctx ends.
func run(ctx context.Context, zk, name string, out io.Writer) (err error) {
	servers, chroot, err := lock.ParseServers(zk)
	if err != nil {
		return err
	}
	client, err := lock.NewClient(lock.Config{Servers: servers, Chroot: chroot})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	guard, err := lockguard.New(client)
	if err != nil {
		return err
	}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return actor.Run(ctx, guard, lockguard.Requirement{Scope: "shop/dispatcher"}, func(ctx context.Context) error {
			_, _ = fmt.Fprintf(out, "%s dispatches\n", name)
			<-ctx.Done() // preempted, lost, or the program ends
			_, err := fmt.Fprintf(out, "%s stops\n", name)
			return err
		}, actor.Again())
	})
	// Here go what every machine does, and whatever else may end the program.
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
