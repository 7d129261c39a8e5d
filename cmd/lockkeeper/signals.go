package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// untilSignals returns a context that ends with the first of the given signals,
// of which it tells, and a channel that gets the later ones.
func untilSignals(
	ctx context.Context, first func(syscall.Signal), of ...os.Signal,
) (_ context.Context, again <-chan syscall.Signal, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 4)
	signal.Notify(received, of...)
	// A closed stderr must not end the daemon with its locks held.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGPIPE)
	later := make(chan syscall.Signal, 4)
	over := make(chan struct{})
	go eachSignal(received, over, func(n int, sig syscall.Signal) {
		if n == 0 {
			first(sig)
			cancel(&jobs.SignalError{Signal: sig})
			return
		}
		select {
		case later <- sig:
		default: // no reader for long
		}
	})
	var once sync.Once
	return ctx, later, func() {
		once.Do(func() {
			signal.Stop(received)
			signal.Stop(deaf)
			close(over)
			cancel(nil)
		})
	}
}

// tellDrain is for programs that the second signal stops.
func (p *program) tellDrain(first syscall.Signal) {
	p.quiet().Info("draining; a second signal, a second later, stops at once", "signal", first.String())
}

// toStop are the signals that end a program that reads no file again: SIGHUP,
// too, unless it was started with nohup.
func toStop() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
}

// sameSignal is how long after a signal another one says nothing new: timeout(1)
// signals its child and then the group that the child belongs to, and a terminal
// that is closed sends SIGHUP and so does its shell.
const sameSignal = time.Second

// eachSignal hands on the signals that say something new, counted from 0, until
// it is over.
func eachSignal(received <-chan os.Signal, over <-chan struct{}, hand func(n int, sig syscall.Signal)) {
	var last time.Time
	for n := 0; ; {
		select {
		case <-over:
			return
		case sig := <-received:
			if n > 0 && time.Since(last) < sameSignal {
				continue
			}
			last = time.Now()
			hand(n, sig.(syscall.Signal))
			n++
		}
	}
}
