package daemons

import (
	"errors"
	"io"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A job that is due every second is skipped, as it should be, when the run
// before has not ended within the second. On a machine that is busy with other
// things that happens now and then. The weather tells when it may: a plain
// ZooKeeper client, which has nothing to do with what is tested, asks about as
// much as a run does, one after the other, again and again, and notes when that
// was slow.
type weather struct {
	mu    sync.Mutex
	storm []span
}

type span struct{ from, to time.Time }

const (
	steps = 4                      // writes and reads, of each; a claim, a lock, a release and an end are no fewer
	gust  = 200 * time.Millisecond // if they took longer, that was slow
	swell = 3 * time.Second        // how long that may still be felt
)

func watchWeather(t *testing.T, servers string) *weather {
	t.Helper()
	const path = "/weather"
	conn, _, err := zk.Connect(strings.Split(servers, ","), session, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	_, err = conn.Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrNodeExists) {
		require.NoError(t, err)
	}
	w := &weather{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		w.watch(stop, func() {
			for range steps {
				_, _ = conn.Set(path, nil, -1)
				_, _, _ = conn.Get(path)
			}
		})
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		conn.Close()
	})
	return w
}

func (w *weather) watch(stop <-chan struct{}, ask func()) {
	const every = gust / 2
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		ask()
		now := time.Now()
		if now.Sub(last) > every+gust {
			w.mu.Lock()
			w.storm = append(w.storm, span{last, now})
			w.mu.Unlock()
		}
		last = now
	}
}

// bad reports whether everything was slow shortly before a moment.
func (w *weather) bad(at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.storm {
		if !at.Before(s.from) && at.Before(s.to.Add(swell)) {
			return true
		}
	}
	return false
}
