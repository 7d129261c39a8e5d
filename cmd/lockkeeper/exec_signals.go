package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// passedOn are the signals that the command gets. Those that this program was
// started to ignore, as by nohup, stay ignored. SIGPIPE is caught so that a
// closed stderr does not end the program with the lock held.
func passedOn() []os.Signal {
	signals := []os.Signal{syscall.SIGPIPE}
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
	} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// holdStill keeps Ctrl-Z from stopping the program while it holds the lock: it
// could not learn of a preemption or a loss.
func holdStill() (undo func()) {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	return func() { signal.Stop(stops) }
}

// A queue hears the signals while there is no command to hear them.
type queue struct{ leave func() }

// waitInQueue returns a context that ends, with a *jobs.SignalError as its
// cause, with a signal that comes before leave is called.
func waitInQueue(ctx context.Context, received <-chan os.Signal) (context.Context, queue) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() {
		for {
			select {
			case <-over:
				return
			case sig := <-received:
				switch sig {
				case syscall.SIGCONT, syscall.SIGPIPE, syscall.SIGWINCH:
				default:
					cancel(&jobs.SignalError{Signal: sig.(syscall.Signal)})
					return
				}
			}
		}
	})
	return ctx, queue{leave: sync.OnceFunc(func() {
		close(over)
		listener.Wait()
	})}
}
