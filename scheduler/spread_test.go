package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// seat is one daemon's part in a group whose locks the test hands out.
type seat struct {
	refusals int   // this many joins fail
	refusal  error // of all joins, if it is set
	spec     group.Spec
	handler  group.Handler
	joined   chan struct{}
	left     bool
	held     map[string]context.CancelFunc
}

func newSeat() *seat {
	return &seat{joined: make(chan struct{}), held: map[string]context.CancelFunc{}}
}

func (s *seat) Join(_ context.Context, spec group.Spec, handler group.Handler, notify func(group.Notice)) (func(context.Context) error, error) {
	if s.refusal != nil {
		return nil, s.refusal
	}
	if s.refusals > 0 {
		s.refusals--
		return nil, errors.New("refused")
	}
	s.spec, s.handler = spec, handler
	notify(group.Controller{Gained: true})
	close(s.joined)
	return func(context.Context) error {
		for job, cancel := range s.held {
			cancel()
			s.handler.OnReleased(context.Background(), job)
		}
		s.left = true
		return nil
	}, nil
}

// give makes a job the daemon's.
func (s *seat) give(job string) {
	<-s.joined
	ctx, cancel := context.WithCancel(context.Background())
	s.held[job] = cancel
	s.handler.OnLocked(ctx, group.LockGrant{Lock: job, Token: 1})
}

func spreadOver(s *seat) option { return func(c *Config) { c.Spread = s } }

func TestDaemonThatCannotJoinRunsNothingAndGoesOnTrying(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := newSeat()
		s.refusals = 5
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 1m", 0), job("hand", "manual", 0)}, spreadOver(s))
		<-s.joined
		require.Equal(t, 5, d.log.lines("does not take part"))
		require.Equal(t, []string{"a"}, s.spec.Locks)
		require.NoError(t, s.spec.Validate())
		require.NoError(t, d.RunNow(t.Context(), "hand"))
		time.Sleep(time.Minute)
		require.Zero(t, d.stats("a").Total())
		s.give("a")
		time.Sleep(time.Minute)
		d.drain()
		require.True(t, s.left)
		require.Zero(t, d.stats("a").Taken)
		require.GreaterOrEqual(t, d.stats("a").Ran, uint64(2))
	})
}

func TestDaemonThatItsGroupRefusesStopsAndSaysWhy(t *testing.T) {
	for name, refusal := range map[string]error{
		"bad name":  &lock.RequestError{Field: "participant", Reason: "is too long"},
		"a request": fmt.Errorf("group not joined: %w", errors.Join(&lock.RequestError{Field: "limit"})),
		"stranger":  &group.NotParticipantError{Group: "g", Name: "x", Participants: []string{"y"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seat := newSeat()
				seat.refusal = refusal
				s, err := New(Config{Ledger: newCluster().daemon("one"), Spread: seat, Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				require.NoError(t, s.Add(job("a", "@every 1m", 0)))
				began := time.Now()
				require.ErrorIs(t, s.Run(t.Context()), refusal)
				require.Zero(t, time.Since(began))
				require.ErrorIs(t, s.RunNow(t.Context(), "a"), ErrStopped)
			})
		})
	}
}

func TestTicksThatAreLeftToTheOwnerDoNotPileUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 1s", 0)}, spreadOver(newSeat()))
		time.Sleep((maxBacklog + 500) * time.Second)
		synctest.Wait()
		l := d.lanes["a"]
		l.mu.Lock()
		n := len(l.queue)
		l.mu.Unlock()
		require.LessOrEqual(t, n, maxBacklog)
		require.GreaterOrEqual(t, d.stats("a").Taken, uint64(499))
		d.drain()
		require.EqualValues(t, maxBacklog+500, d.stats("a").Taken)
		require.Zero(t, d.log.lines("tick skipped"), "it says nothing of what is not its own")
	})
}
