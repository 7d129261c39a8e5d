package zktest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// An Option changes how a server begins. The zero of everything is ZooKeeper's
// own default, except that the server listens on a free port of the loopback
// interface and answers every four-letter word.
type Option func(*options) error

type options struct {
	address    string
	pipe       bool
	tls        *tls.Config
	tick       time.Duration
	minTimeout time.Duration
	maxTimeout time.Duration
	ttl        bool
	sweep      time.Duration
	frozen     bool
	dataDir    string
	words      map[string]bool // nil: all
	ensemble   ensembleOptions
}

func newOptions(opts []Option) (options, error) {
	o := options{
		address: "127.0.0.1:0", tick: 2 * time.Second, sweep: time.Minute,
		ensemble: ensembleOptions{voters: 3, syncLimit: 5, election: 200 * time.Millisecond},
	}
	var errs []error
	for _, option := range opts {
		errs = append(errs, option(&o))
	}
	if o.minTimeout == 0 {
		o.minTimeout = 2 * o.tick
	}
	if o.maxTimeout == 0 {
		o.maxTimeout = 20 * o.tick
	}
	if o.minTimeout > o.maxTimeout {
		errs = append(errs,
			fmt.Errorf("shortest session timeout (%s) is longer than the longest (%s)", o.minTimeout, o.maxTimeout))
	}
	if o.pipe && o.tls != nil {
		errs = append(errs, errors.New("options Pipe and TLS exclude each other"))
	}
	return o, errors.Join(errs...)
}

// Addr is the host:port on which the server listens. Defaults to a free port
// of 127.0.0.1.
func Addr(address string) Option {
	return func(o *options) error {
		o.address = address
		return nil
	}
}

// Pipe keeps the server off the network: clients connect through Dial, in
// memory. That is how a server lives in a bubble of testing/synctest, where a
// goroutine that waits for the network would stop the clock.
func Pipe() Option {
	return func(o *options) error {
		o.pipe = true
		return nil
	}
}

// TLS makes the server speak TLS only, on the network; see Dial.
func TLS(config *tls.Config) Option {
	return func(o *options) error {
		if config == nil {
			return errors.New("option TLS needs a configuration")
		}
		o.tls = config
		return nil
	}
}

// TickTime is ZooKeeper's tickTime: session timeouts are 2 to 20 ticks, and
// sessions expire at whole ticks. Defaults to 2s; at least 1ms.
func TickTime(tick time.Duration) Option {
	return func(o *options) error {
		if tick < time.Millisecond {
			return fmt.Errorf("tick time %s is shorter than 1ms", tick)
		}
		o.tick = tick
		return nil
	}
}

// SessionTimeouts are the shortest and the longest timeout that a client gets,
// whatever it asks for. Default to 2 and 20 ticks.
func SessionTimeouts(shortest, longest time.Duration) Option {
	return func(o *options) error {
		if shortest < time.Millisecond || longest < shortest || longest > math.MaxInt32*time.Millisecond {
			return fmt.Errorf("session timeouts from %s to %s make no sense: 1ms to %s is possible", shortest, longest,
				math.MaxInt32*time.Millisecond)
		}
		o.minTimeout, o.maxTimeout = shortest, longest
		return nil
	}
}

// TTL allows nodes with a time to live (zookeeper.extendedTypesEnabled).
// Without it they are answered with Unimplemented.
func TTL() Option {
	return func(o *options) error {
		o.ttl = true
		return nil
	}
}

// SweepInterval is how often containers and nodes with a time to live are
// looked at (znode.container.checkIntervalMs). Defaults to 1m. Sweep does it
// at once.
func SweepInterval(interval time.Duration) Option {
	return func(o *options) error {
		if interval < time.Millisecond {
			return fmt.Errorf("sweep interval %s is shorter than 1ms", interval)
		}
		o.sweep = interval
		return nil
	}
}

// FrozenClock stops the server's clock: it moves by Advance alone, so no
// session expires unless the test says so.
func FrozenClock() Option {
	return func(o *options) error {
		o.frozen = true
		return nil
	}
}

// DataDir names a directory, made when it is missing, that keeps the server's
// state in a file: read at the start, written at Close and, at most once a
// second, while there are changes. What happened since the last time is lost
// in a crash: this is for development, not for data. After a crash the numbers
// of transactions go on far beyond the last that was saved, so that none is
// given twice. One server at a time uses
// a directory; see DataDirError.
func DataDir(dir string) Option {
	return func(o *options) error {
		if dir == "" {
			return errors.New("option DataDir needs a directory")
		}
		o.dataDir = dir
		return nil
	}
}

// FourLetterWords are the administrator's commands that the server answers,
// such as "srvr", "stat" or "*" (4lw.commands.whitelist). Defaults to all.
func FourLetterWords(words ...string) Option {
	return func(o *options) error {
		o.words = make(map[string]bool)
		for _, word := range words {
			if word == "*" {
				o.words = nil
				return nil
			}
			if len(word) != 4 || strings.ToLower(word) != word {
				return fmt.Errorf("%q is no four-letter word", word)
			}
			o.words[word] = true
		}
		return nil
	}
}
