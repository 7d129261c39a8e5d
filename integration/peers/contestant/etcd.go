package contestant

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd has the mutexes of etcd's own client.
type etcd struct {
	options  Options
	clients  []*clientv3.Client
	sessions []*concurrency.Session
}

func newEtcd(o Options) house { return &etcd{options: o} }

func (e *etcd) get(ctx context.Context, client int) (*concurrency.Session, error) {
	for len(e.sessions) <= client {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{e.options.server(len(e.sessions))}, DialTimeout: time.Minute, Logger: zap.NewNop(),
		})
		if err != nil {
			return nil, err
		}
		e.clients = append(e.clients, c)
		session, err := concurrency.NewSession(c, concurrency.WithTTL(int(e.options.Session.Seconds())))
		if err != nil {
			return nil, err
		}
		e.sessions = append(e.sessions, session)
	}
	return e.sessions[client], ctx.Err()
}

func (e *etcd) close(context.Context) error {
	var errs []error
	for _, s := range e.sessions {
		errs = append(errs, s.Close())
	}
	for _, c := range e.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (e *etcd) door(ctx context.Context, worker, client int, turn Turn) (acquire, error) {
	session, err := e.get(ctx, client)
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(session, "/mutexes/"+turn.Locks[worker])
	return func(ctx context.Context) (func(context.Context) error, error) {
		if err := mutex.Lock(ctx); err != nil {
			return nil, err
		}
		return mutex.Unlock, nil
	}, nil
}
