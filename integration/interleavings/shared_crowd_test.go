package interleavings

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// What follows is about crowds of readers on a network with a round trip of a
// millisecond: what is done one reader after the other, and anew whenever one of
// them comes or goes, may never end.
const (
	trip  = time.Millisecond
	crowd = 24
)

// fast is what a step may take when a crowd is there.
const fast = 200 * time.Millisecond

// reads makes a reader come and go: it holds for a while, or until it is
// preempted.
func (c *client) reads(level priority.Level, patience *time.Duration, hold time.Duration) error {
	asked := make(chan struct{})
	var once sync.Once
	g, err := c.w.fixture.Lock(c.Client, users).Acquire(context.Background(), lock.Request{
		Terms: priority.Terms{Mode: priority.Shared, Priority: level, AcquireTimeout: patience, CleanupTimeout: time.Minute},
		Notify: func(n lock.Notice) {
			if _, ok := n.(lock.PreemptRequested); ok {
				once.Do(func() { close(asked) })
			}
		},
	})
	if err != nil {
		return err
	}
	select {
	case <-asked:
	case <-time.After(hold):
	}
	return g.Release(context.Background())
}

// again does something at intervals until the returned function is called.
func again(every time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(every):
				all.Go(f)
			}
		}
	})
	return func() {
		close(done)
		all.Wait()
	}
}

// With more important readers coming and going, G changes all the time.
func TestWriterAsksACrowdOfReadersThoughOthersComeAndGo(t *testing.T) {
	scenario(t, func(w *world) {
		// given many readers that a writer outranks, and a stream of some that outrank it
		c := w.client("readers")
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if err := c.reads(1, nil, time.Hour); err != nil {
					w.Errorf("reader: %v", err)
				}
			})
		}
		w.eventually("all read", func() bool { return len(w.state().Holders) == crowd })
		w.On(zktest.Any().From("W")).Delay(trip)
		stream := w.client("stream")
		stop := again(20*trip, func() { _ = stream.reads(9, nil, 2*trip) })

		// when it comes, then it has the lock soon
		asked := w.Now()
		w.ask("W", at(5)).Granted()
		require.Less(w, w.Now()-asked, fast)
		stop()
		for _, u := range w.users {
			u.end()
		}
		all.Wait()
	})
}

// The one in front gives up all the time: who is in front when the holder looks
// is gone when it hands over.
func TestHolderHandsOverToACrowdOfReadersThatGiveUp(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder, and readers that come at intervals and wait as long as the crowd is large
		h := w.hold("H", at(1))
		c := w.client("readers")
		stop := again(20*trip, func() { _ = c.reads(1, new(crowd*20*trip), trip) })
		w.Pass(3 * crowd * 10 * trip)
		w.On(zktest.Any().From("H")).Delay(trip)

		// when it releases, then it is done soon
		left := w.Now()
		h.release()
		require.Less(w, w.Now()-left, fast)
		stop()
	})
}

// Only readers: each that comes in raises the version for the others.
func TestCrowdOfReadersComesInBesideACrowdOfReaders(t *testing.T) {
	scenario(t, func(w *world) {
		// given many readers
		c := w.client("readers")
		var all sync.WaitGroup
		leave := make(chan struct{})
		in := make(chan struct{}, 2*crowd)
		read := func(c *client) {
			g, err := c.w.fixture.Lock(c.Client, users).Acquire(context.Background(), lock.Request{Terms: priority.Terms{Mode: priority.Shared}})
			if err != nil {
				w.Errorf("reader: %v", err)
				return
			}
			in <- struct{}{}
			<-leave
			if err := g.Release(context.Background()); err != nil {
				w.Errorf("reader: %v", err)
			}
		}
		for range crowd {
			all.Go(func() { read(c) })
		}
		for range crowd {
			<-in
		}

		// when as many come at once, each from a process of its own
		var clients []*client
		for i := range crowd / 2 {
			clients = append(clients, w.client(fmt.Sprint("newcomer ", i)))
		}
		slow := w.On(zktest.Any()).Delay(trip)
		asked := w.Now()
		for _, c := range clients {
			all.Go(func() { read(c) })
		}
		for range clients {
			<-in
		}

		// then all are in soon
		require.Less(w, w.Now()-asked, fast)
		slow.Remove()
		close(leave)
		all.Wait()
	})
}
