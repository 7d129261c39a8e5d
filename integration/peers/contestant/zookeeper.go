package contestant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// conns are the sessions of the contestants that use go-zookeeper as it is.
type conns struct {
	options Options
	all     []*zk.Conn
}

func (c *conns) get(ctx context.Context, client int) (*zk.Conn, error) {
	for len(c.all) <= client {
		conn, err := dial(ctx, c.options.server(len(c.all)), c.options.Session)
		if err != nil {
			return nil, err
		}
		c.all = append(c.all, conn)
	}
	return c.all[client], nil
}

func (c *conns) close(context.Context) error {
	for _, conn := range c.all {
		conn.Close()
	}
	return nil
}

func dial(ctx context.Context, server string, session time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{server}, session, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("connect to %s: %w", server, context.Cause(ctx))
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func ensure(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// raw is the limit: what any lock with a node of its own has to write. It does not exclude
// others.
type raw struct{ conns }

func newRaw(o Options) house { return &raw{conns{options: o}} }

func (r *raw) door(ctx context.Context, worker, client int, turn Turn) (acquire, error) {
	conn, err := r.get(ctx, client)
	if err != nil {
		return nil, err
	}
	parent := "/raw/" + turn.Locks[worker]
	if err := errors.Join(ensure(conn, "/raw"), ensure(conn, parent)); err != nil {
		return nil, err
	}
	return func(context.Context) (func(context.Context) error, error) {
		path, err := conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { return conn.Delete(path, -1) }, nil
	}, nil
}

// zkLock is the lock of the client library.
type zkLock struct{ conns }

func newZKLock(o Options) house { return &zkLock{conns{options: o}} }

func (z *zkLock) door(ctx context.Context, worker, client int, turn Turn) (acquire, error) {
	conn, err := z.get(ctx, client)
	if err != nil {
		return nil, err
	}
	lock := zk.NewLock(conn, "/zklock/"+turn.Locks[worker], zk.WorldACL(zk.PermAll))
	return func(context.Context) (func(context.Context) error, error) {
		if err := lock.Lock(); err != nil { // it knows no context
			return nil, err
		}
		return func(context.Context) error { return lock.Unlock() }, nil
	}, nil
}
