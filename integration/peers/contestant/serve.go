package contestant

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Options are what a contestant is started with.
type Options struct {
	// Kind is one of Kinds.
	Kind string

	// Servers are the addresses; client i uses server i modulo their number, so that all contestants spread alike.
	Servers []string

	// Session is the session timeout, or the time to live of a lock.
	Session time.Duration
}

// Product is the kind that is ours.
const Product = "lockkeeper"

// kinds makes contestants.
var kinds = map[string]func(Options) house{
	"etcd":   newEtcd,
	Product:  newProduct,
	"raw":    newRaw,
	"redis":  newRedis,
	"zklock": newZKLock,
}

// A house has one kind of locks, and makes its clients when they are first needed.
type house interface {
	// door returns what takes a worker's lock through one of the clients.
	door(ctx context.Context, worker, client int, turn Turn) (acquire, error)
	close(ctx context.Context) error
}

// An acquire waits for the lock and returns what releases it.
type acquire func(ctx context.Context) (release func(ctx context.Context) error, err error)

// grace is how long a worker may stay behind the end of its turn.
const grace = 20 * time.Second

// Serve plays the turns that come on in, and writes a result for each to out, until in ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	open, ok := kinds[o.Kind]
	if !ok {
		return fmt.Errorf("there is no contestant %q", o.Kind)
	}
	p := player{options: o, house: open(o)}
	defer func() { _ = p.house.close(context.WithoutCancel(ctx)) }()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var turn Turn
		var r Result
		err := json.Unmarshal(lines.Bytes(), &turn)
		if err == nil {
			r, err = p.play(ctx, turn)
		}
		if err != nil {
			r.Error = err.Error()
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A player plays the turns of one contestant.
type player struct {
	options Options
	house   house
	queue   *queue
}

func (p *player) play(ctx context.Context, turn Turn) (Result, error) {
	switch turn.Do {
	case Cycles:
		return p.cycles(ctx, turn)
	case Queue:
		q, err := newQueue(ctx, p.house, turn)
		p.queue = q
		return Result{}, err
	case Pass:
		if p.queue == nil {
			return Result{}, fmt.Errorf("there is no queue: %s comes after %s", Pass, Queue)
		}
		return p.queue.pass(ctx, turn)
	case Hold, Acquire:
		return p.once(ctx, turn)
	case Preempt, Takeover:
		if p.options.Kind != Product {
			return Result{}, fmt.Errorf("%s cannot %s", p.options.Kind, turn.Do)
		}
		return arguments{p.options}.play(ctx, turn)
	default:
		return Result{}, fmt.Errorf("unknown turn %q", turn.Do)
	}
}

// once takes a lock, and gives it back unless it is to be held.
func (p *player) once(ctx context.Context, turn Turn) (Result, error) {
	enter, err := p.house.door(ctx, 0, 0, turn)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	release, err := enter(ctx)
	if err != nil {
		return Result{}, err
	}
	r := Result{Cycles: 1, Seconds: time.Since(start).Seconds()}
	if turn.Do == Acquire {
		err = release(ctx)
	}
	return r, err
}

// server returns the address of a client's server.
func (o Options) server(client int) string { return o.Servers[client%len(o.Servers)] }

// ParseServers reads addresses, separated by commas.
func ParseServers(text string) []string { return strings.Split(text, ",") }
