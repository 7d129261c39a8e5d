package contestant

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

// redisPoll is how often a waiter asks again: redsync has no queue, and does not notify waiters of a release. Its
// default, 50 to 250 ms, would make it wait for nothing else.
const redisPoll = 2 * time.Millisecond

// redis has the locks of redsync on one server: a key that expires. It is here as what a lock costs without safety.
type redis struct {
	options Options
	clients []*goredislib.Client
}

func newRedis(o Options) house { return &redis{options: o} }

func (r *redis) close(context.Context) error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (r *redis) door(_ context.Context, worker, client int, turn Turn) (acquire, error) {
	for len(r.clients) <= client {
		r.clients = append(r.clients, goredislib.NewClient(&goredislib.Options{Addr: r.options.server(len(r.clients))}))
	}
	mutex := redsync.New(goredis.NewPool(r.clients[client])).NewMutex("mutex/"+turn.Locks[worker],
		redsync.WithExpiry(r.options.Session), redsync.WithTries(math.MaxInt32), redsync.WithRetryDelay(redisPoll))
	return func(ctx context.Context) (func(context.Context) error, error) {
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			there, err := mutex.UnlockContext(ctx)
			if err == nil && !there {
				err = errors.New("the lock had expired")
			}
			return err
		}, nil
	}, nil
}
