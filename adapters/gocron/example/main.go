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

	"github.com/go-co-op/gocron/v2"

	lockkeeper "github.com/lockkeeper/lockkeeper/adapters/gocron"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Getenv("LOCKKEEPER_ZK"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
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
	// Tasks that are there already: the lock is around them, and cannot reach them.
	locker, err := lockkeeper.NewLocker(guard, func(job string) lockguard.Requirement {
		return lockguard.Requirement{Scope: "shop/jobs/" + job}
	})
	if err != nil {
		return err
	}
	s, err := gocron.NewScheduler(gocron.WithStopTimeout(time.Minute))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(func() { _, _ = fmt.Fprintln(out, "tidying up") }),
		gocron.WithName("tidy"), gocron.WithDistributedJobLocker(locker))
	if err != nil {
		return err
	}

	// A task whose context is the lock.
	report := lockkeeper.Task(guard,
		lockguard.Requirement{Scope: "shop/report", Terms: priority.Terms{CleanupTimeout: 10 * time.Second}},
		func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			_, _ = fmt.Fprintf(out, "writing the report, token %d\n", hold.Token())
			select {
			case <-time.After(time.Hour):
				return nil
			case <-ctx.Done(): // preempted, lost, or the program ends
				return context.Cause(ctx)
			}
		},
		func(context.Context) error { _, err := fmt.Fprintln(out, "half a report removed"); return err })
	if _, err := s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(report),
		gocron.WithName("report")); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown() // when the tasks have cleaned up
}
