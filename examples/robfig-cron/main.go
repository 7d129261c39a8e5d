// Command robfig-cron is a program that has its schedules in robfig/cron, and
// runs on several machines: each job under its lock, on one of them at a time.
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

	"github.com/robfig/cron/v3"

	"github.com/lockkeeper/lockkeeper/adapters/robfigcron"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Getenv("LOCKKEEPER_ZK"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "robfig-cron:", err)
		os.Exit(1)
	}
}

// serve runs the jobs until ctx ends.
func serve(ctx context.Context, zk string, out io.Writer) (err error) {
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

	locked := robfigcron.JobWrapper(guard,
		lockguard.Requirement{Scope: "shop/report", Terms: priority.Terms{CleanupTimeout: 10 * time.Second}},
		robfigcron.WithContext(ctx), // jobs end with the program
		robfigcron.WithHooks(
			func(context.Context) error { _, err := fmt.Fprintln(out, "half a report removed"); return err }),
	)
	c := cron.New()
	if _, err := c.AddJob("@every 1s", locked(robfigcron.Job(func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		_, _ = fmt.Fprintf(out, "writing the report, token %d\n", hold.Token())
		select {
		case <-time.After(time.Hour):
			return nil
		case <-ctx.Done(): // preempted, lost, or the program ends
			return context.Cause(ctx)
		}
	}))); err != nil {
		return err
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done() // when the jobs have cleaned up
	return nil
}
