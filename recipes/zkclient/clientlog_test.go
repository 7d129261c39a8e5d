package zkclient

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A stuckLog takes a record and does not return before it is freed.
type stuckLog struct {
	slog.Handler

	free  chan struct{}
	mu    sync.Mutex
	lines []string
}

func (s *stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s *stuckLog) Handle(_ context.Context, r slog.Record) error {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	s.lines = append(s.lines, line)
	return nil
}

func TestBlockingLogGetsWhatFitsAndACountOfTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a log that takes nothing
		stuck := &stuckLog{free: make(chan struct{})}
		log, queue := newClientLog(slog.New(stuck))

		// when more is logged than may wait
		start := time.Now()
		for i := range 1000 {
			log.Debug("record", "n", i)
			if i == 0 {
				synctest.Wait() // it is being taken
			}
		}
		queue.flush()
		require.Equal(t, flushPatience, time.Since(start), "and Close does not wait for it")

		// then it gets the first ones, and a record about the dropped ones
		close(stuck.free)
		synctest.Wait()
		require.Len(t, stuck.lines, 1+maxLogQueue+1)
		require.Equal(t, fmt.Sprintf("record n=%d", maxLogQueue), stuck.lines[maxLogQueue])
		require.Contains(t, stuck.lines[maxLogQueue+1], fmt.Sprintf("dropped=%d", 1000-1-maxLogQueue))

		// and later ones, in order, before Close returns
		for i := range 3 {
			log.Info("again", "n", i)
		}
		queue.flush()
		require.Equal(t, "again n=0, again n=1, again n=2", strings.Join(stuck.lines[maxLogQueue+2:], ", "))
	})
}
