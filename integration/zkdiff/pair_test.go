package zkdiff

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// sessions is how many clients a run has.
const sessions = 4

// pair is two servers in lock-step.
type pair struct {
	real, fake *side
	stop       func() error
}

// launchPair starts two servers side by side.
func launchPair(ctx context.Context, genuine, fake launcher) (*pair, error) {
	var a, b server
	var errA, errB error
	var both sync.WaitGroup
	both.Go(func() { a, errA = genuine(ctx) })
	both.Go(func() { b, errB = fake(ctx) })
	both.Wait()
	stop := func() error {
		var errs []error
		for _, s := range []server{a, b} {
			if s.stop != nil {
				errs = append(errs, s.stop())
			}
		}
		return errors.Join(errs...)
	}
	if err := errors.Join(errA, errB); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &pair{newSide(a, sessions), newSide(b, sessions), stop}, nil
}

func (p *pair) close() error {
	p.real.close()
	p.fake.close()
	return p.stop()
}

// do takes a step on both servers. It returns where they differ, or "", and the paths that the step has created.
func (p *pair) do(step Step) (difference string, created []string) {
	var a, b outcome
	var fake sync.WaitGroup
	fake.Go(func() { b = p.fake.do(step) })
	a = p.real.do(step)
	fake.Wait()
	return a.differs(b), a.created
}

// divergence is a script and where the servers differ at its end.
type divergence struct {
	script     Script
	difference string
}

func (d *divergence) String() string {
	return fmt.Sprintf("after\n%s\nthe servers differ:\n%s", d.script, strings.TrimRight(d.difference, "\n"))
}

var anyNumber = regexp.MustCompile(`\d+`)

// kind tells divergences apart: by the last operation and the shape of the first frames that differ.
func (d *divergence) kind() string {
	kind := d.script[len(d.script)-1].Do.String()
	for line := range strings.Lines(d.difference) {
		if _, frame, ok := strings.Cut(line, " real: "); ok {
			kind += " real: " + shape(frame)
		}
		if _, frame, ok := strings.Cut(line, " fake: "); ok {
			return kind + " fake: " + shape(frame)
		}
	}
	return kind
}

// shape is a frame without its details, except errors.
func shape(frame string) string {
	words := strings.Fields(frame)
	for i, word := range words {
		if !strings.HasPrefix(word, "err=") {
			words[i] = anyNumber.ReplaceAllString(word, "#")
		}
	}
	return strings.Join(words[:min(len(words), 5)], " ")
}

// memory is how many steps before a divergence are kept.
const memory = 20_000

// inventor thinks of steps, and learns of the nodes that they have created.
type inventor interface {
	next() Step
	learn(created []string)
}

// explore lets a generator drive a pair. It returns nil when the servers agree to the end.
func explore(ctx context.Context, p *pair, g inventor, steps int, progress func(done int)) *divergence {
	var script Script
	for n := 0; n < steps && ctx.Err() == nil; n++ {
		step := g.next()
		if len(script) == 2*memory {
			script = append(Script{}, script[memory:]...)
		}
		script = append(script, step)
		difference, created := p.do(step)
		if difference != "" {
			return &divergence{script, difference}
		}
		g.learn(created)
		if n%1000 == 999 {
			progress(n + 1)
		}
	}
	return nil
}

// replay takes the steps of a script on a pair of its own. It returns the part up to the first difference, or nil.
func replay(ctx context.Context, genuine, fake launcher, script Script) (found *divergence, err error) {
	p, err := launchPair(ctx, genuine, fake)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for i, step := range script {
		if difference, _ := p.do(step); difference != "" {
			return &divergence{script[:i+1], difference}, nil
		}
	}
	return nil, nil
}
