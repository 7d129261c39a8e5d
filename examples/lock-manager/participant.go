package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A participant has a client of its own, as a process of its own would, and
// tells what happens to its locks.
type participant struct {
	name   string
	out    io.Writer // each line is one write
	client *lock.Client
	member *group.Member
}

var _ group.Handler = (*participant)(nil)

// join starts a participant.
func join(ctx context.Context, cfg lock.Config, spec group.Spec, name string, out io.Writer) (*participant, error) {
	p := &participant{name: name, out: out}
	p.tell("STARTING %s", name)
	client, err := lock.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	p.client = client
	group, err := group.New(client.Client, spec)
	if err == nil {
		p.member, err = group.Join(ctx, name, p)
	}
	if err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	p.tell("STARTED %s", name)
	return p, nil
}

// OnLocked could work under ctx, which ends when the lock moves away. Whatever
// it writes to gets the token.
func (p *participant) OnLocked(_ context.Context, grant group.LockGrant) {
	p.tell("%s acquired lock:%s", p.name, grant.Lock)
}

// OnReleased cleans up: no other participant gets the lock before it returns.
func (p *participant) OnReleased(_ context.Context, lock string) {
	p.tell("%s releasing lock:%s", p.name, lock)
}

// OnDropped is called when the lock will not come back.
func (p *participant) OnDropped(_ context.Context, lock string) {
	p.tell("%s dropping lock:%s", p.name, lock)
}

func (p *participant) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// stop hands all locks over.
func (p *participant) stop(ctx context.Context) error {
	return errors.Join(p.member.Leave(ctx), p.close(ctx))
}

func (p *participant) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return p.client.Close(ctx)
}

// participate is one participant as a process: it leaves when ctx or stdin
// ends, so that it does not outlive the one that has started it.
func participate(
	ctx context.Context, cfg lock.Config, spec group.Spec, name string, stdin io.Reader, stdout io.Writer,
) error {
	p, err := join(ctx, cfg, spec, name, stdout)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(over)
	}()
	select {
	case <-ctx.Done():
	case <-over:
	case <-p.member.Done():
		return errors.Join(p.member.Err(), p.close(ctx))
	}
	return p.stop(context.WithoutCancel(ctx))
}
