package timings

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A story is the events of one request.
type story struct {
	recorder *Recorder
	subject  lockguard.Subject
}

func tell(r *Recorder, id string) *story {
	return &story{r, lockguard.Subject{ID: id, Identity: priority.Identity{Owner: "job"}, Scope: "s", At: time.Now()}}
}

// after moves the clock of the story on.
func (s *story) after(d time.Duration) *story {
	s.subject.At = s.subject.At.Add(d)
	return s
}

func (s *story) is(notice lock.Notice) *story {
	s.recorder.Observe(context.Background(), lockguard.Event{Subject: s.subject, Notice: notice})
	return s
}

func (s *story) acquired(waited time.Duration) *story {
	return s.is(lockguard.Acquired{Waited: waited})
}

func (s *story) asked(reason priority.Reason) *story {
	return s.is(lock.PreemptRequested{Reason: reason, Grace: time.Minute})
}

func (s *story) cleaning(deadline time.Time) *story {
	return s.is(lockguard.CleanupStarted{Deadline: deadline})
}

func (s *story) overran() *story {
	return s.is(lockguard.CleanupOverrun{})
}

func (s *story) released(held time.Duration, cause error) *story {
	return s.is(lockguard.Released{Held: held, Cause: cause})
}

func (s *story) lost() *story {
	return s.is(lockguard.Lost{Err: &lockguard.LostError{}})
}

func (s *story) notAcquired(err error) *story {
	return s.is(lockguard.NotAcquired{Err: err})
}

func (s *story) sent() *story {
	return s.is(lock.PreemptSent{})
}

// histogram is one of these durations.
func histogram(durations ...time.Duration) Histogram { return recorded(durations) }

func TestEventsBecomeTimings(t *testing.T) {
	stopped := &lockguard.ShutdownError{}
	deadline := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		tell func(s *story)
		want Series
	}{
		"work that ends by itself": {
			func(s *story) { s.acquired(time.Second).after(time.Minute).released(time.Minute, nil) },
			Series{Wait: histogram(time.Second), Hold: histogram(time.Minute)},
		},
		"a cleanup within its grace counts from the preemption": {
			func(s *story) {
				s.acquired(0).after(time.Minute).asked(priority.Outranked).after(2*time.Second).cleaning(deadline).
					after(3*time.Second).released(65*time.Second, stopped)
			},
			Series{Wait: histogram(0), Cleanup: histogram(5 * time.Second), Preempted: 1},
		},
		"a second preemption is no news": {
			func(s *story) {
				s.acquired(0).asked(priority.LeaseExpired).after(time.Second).asked(priority.Outranked).after(time.Second).released(2*time.Second, stopped)
			},
			Series{Wait: histogram(0), Cleanup: histogram(2 * time.Second), Expired: 1},
		},
		"a cleanup that overruns, and its real time": {
			func(s *story) {
				s.acquired(0).asked(priority.Outranked).after(time.Minute).overran().after(time.Minute).released(2*time.Minute, stopped)
			},
			Series{Wait: histogram(0), Cleanup: histogram(2 * time.Minute), Preempted: 1, Overran: 1},
		},
		"a cleanup that is cut off by a takeover": {
			func(s *story) {
				s.acquired(0).asked(priority.Outranked).after(time.Minute).overran().after(time.Second).lost().cleaning(time.Time{}).overran()
			},
			Series{Wait: histogram(0), Cleanup: histogram(61 * time.Second), Preempted: 1, Unfinished: 1, Lost: 1},
		},
		"a cleanup after a shutdown counts from its hooks": {
			func(s *story) {
				s.acquired(0).after(time.Hour).cleaning(deadline).after(time.Second).released(time.Hour, stopped)
			},
			Series{Wait: histogram(0), Cleanup: histogram(time.Second)},
		},
		"hooks after the loss of another lock have no grace": {
			func(s *story) { s.acquired(0).cleaning(time.Time{}).after(time.Second).released(time.Second, stopped) },
			Series{Wait: histogram(0)},
		},
		"a lease that is over": {
			func(s *story) {
				s.acquired(0).after(time.Hour).asked(priority.LeaseExpired).after(time.Second).released(time.Hour, stopped)
			},
			Series{Wait: histogram(0), Cleanup: histogram(time.Second), Expired: 1, LongestExpired: time.Hour},
		},
		"a loss without a preemption": {
			func(s *story) { s.acquired(0).after(time.Minute).lost() },
			Series{Wait: histogram(0), Lost: 1},
		},
		"a preemptor that gets the lock": {
			func(s *story) {
				s.after(time.Second).sent().after(time.Second).sent().after(time.Second).acquired(3 * time.Second)
			},
			Series{Wait: histogram(3 * time.Second), GiveWay: histogram(2 * time.Second)},
		},
		"a preemptor whose waiting timeout is over": {
			func(s *story) { s.sent().after(time.Second).notAcquired(&lock.CleanupPendingError{}) },
			Series{Refused: 1, Pending: 1},
		},
		"a try that fails": {
			func(s *story) { s.notAcquired(&lock.NotAcquiredError{}) },
			Series{Refused: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// given
			var r Recorder

			// when
			test.tell(tell(&r, "1"))

			// then
			require.Equal(t, &test.want, r.Stats()[Key{"job", "s"}])
			if name != "a preemptor that gets the lock" {
				require.Empty(t, r.requests, "a request is forgotten at its end")
			}
		})
	}
}

// In virtual time: none of these weeks ends meanwhile.
func TestWeeksThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		var r Recorder
		for week := range 10 {
			tell(&r, "1").after(-time.Duration(week)*7*24*time.Hour).acquired(0).released(time.Minute, nil)
		}

		// then
		require.EqualValues(t, weeks, r.Stats()[Key{"job", "s"}].Hold.count)
		require.Len(t, r.ledger[Key{"job", "s"}], weeks)
	})
}

func TestTooManyScopesAreNotMeasured(t *testing.T) {
	// given
	var r Recorder
	for i := range maxSeries + 10 {
		s := tell(&r, "1")
		s.subject.Scope = string(rune(i))
		s.acquired(0).released(time.Minute, nil)
	}

	// then
	require.Len(t, r.Stats(), maxSeries)
	require.True(t, r.full)
}
