package live_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func Example() {
	zk, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = zk.Close() }()
	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	// somebody holds a lock, and somebody waits
	l, err := client.PriorityLock("cluster/orders")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "nightly"}, Terms: priority.Terms{Priority: 5}}); err != nil {
		log.Fatal(err)
	}
	go func() { _, _ = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "report"}}) }()

	// look at it
	lookout, err := client.Lookout(lock.LookoutOptions{})
	if err != nil {
		log.Fatal(err)
	}
	board, err := live.New(live.Options{Source: lookout, Now: client.Now})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = board.Run(ctx) }()
	for snapshot := range board.Changes(ctx) {
		if snapshot.Totals.Waiters == 0 {
			continue
		}
		for _, l := range snapshot.Locks {
			fmt.Println(l.Scope, l.State, "by", l.RootBlocker.Owner)
			fmt.Println(l.Waiters[0].Owner, "waits for", len(l.Waiters[0].Blockers))
		}
		break
	}
	// Output:
	// cluster/orders held by nightly
	// report waits for 1
}
