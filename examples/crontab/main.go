// Command crontab is what a line of a crontab can run on several machines at
// once: it does its work on one of them, and the others leave at once.
//
//	0 * * * *  LOCKKEEPER_ZK=zk1:2181,zk2:2181 /usr/local/bin/report
//
// The lock keeps two of them apart; it does not keep a machine whose clock is
// late from starting when the others are done. Where that matters, leave the
// schedule to Lockkeeper, which runs each tick once. A crontab line whose work
// is a program already needs no Go:
//
//	0 * * * *  lockkeeper exec --scope shop/report --acquire 0 -- /usr/local/bin/report
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

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := once(ctx, os.Getenv("LOCKKEEPER_ZK"), os.Stdout, report)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// once runs work under a lock, unless it is held.
func once(ctx context.Context, zk string, out io.Writer, work func(context.Context) error) (err error) {
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

	// This is the one line.
	err = guard.Do(ctx,
		lockguard.Requirement{Scope: "shop/report", Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}, work)

	if busy, ok := errors.AsType[*lock.NotAcquiredError](err); ok && len(busy.Holders) > 0 {
		_, err = fmt.Fprintf(out, "%s is at it already\n", busy.Holders[0].Host)
	}
	return err
}

// report returns soon after ctx has ended, because the lock has gone then, or
// will soon.
func report(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	_, err := fmt.Println("writing the report")
	return err
}
