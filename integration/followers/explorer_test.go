package followers

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// schedulesInSuite is how many schedules a run of the tests plays, unless
// LOCKKEEPER_FOLLOWERS_SCHEDULES says so.
const schedulesInSuite = 100

// The seeds of a run follow each other, from LOCKKEEPER_FOLLOWERS_SEED or the
// time.
func TestHolderIsNotifiedBeforeAnotherIsGrantedInRandomSchedules(t *testing.T) {
	number, first := schedulesInSuite, uint64(time.Now().UnixNano())
	if testing.Short() {
		number = schedulesInSuite / 10
	}
	if seed, ok := fromEnvironment(t, "LOCKKEEPER_FOLLOWERS_SEED"); ok {
		number, first = 1, seed
	}
	if n, ok := fromEnvironment(t, "LOCKKEEPER_FOLLOWERS_SCHEDULES"); ok {
		number = int(n)
	}
	begun := time.Now()
	var next, changes, failures atomic.Int64
	var mu sync.Mutex
	var busiest int // the most writes of a program in a second
	var busy *schedule
	t.Run("schedules", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("worker %d", i), func(t *testing.T) {
				t.Parallel()
				for {
					n := next.Add(1) - 1
					if n >= int64(number) || failures.Load() >= maxFailures || t.Failed() && failures.Load() == 0 {
						return
					}
					s := newSchedule(first + uint64(n))
					r := s.playWithin(t, patience)
					changes.Add(int64(r.changes))
					mu.Lock()
					if r.busiest > busiest {
						busiest, busy = r.busiest, s
					}
					mu.Unlock()
					switch {
					case r.problem != "":
						failures.Add(1)
						t.Errorf("%s\n%s\n%s", s, r.problem, r.story)
					case number == 1:
						t.Logf("%s\n%s", s, r.story)
					}
				}
			})
		}
	})
	played := min(next.Load(), int64(number))
	rate := float64(played) / time.Since(begun).Seconds()
	t.Logf("%d schedules from seed %d, %.0f a second; the lock changed hands %d times; %d failed",
		played, first, rate, changes.Load(), failures.Load())
	if busy != nil {
		t.Logf("at most %d writes of a program in a second, seed %d", busiest, busy.seed)
		if busiest > most {
			t.Errorf("a program writes in a loop: %d times in a second, and %d is enough\n%s", busiest, most, busy)
		}
	}
}

// playWithin panics when the schedule does not end. Playing may end the goroutine, when its bubble has failed: the
// timer must not go on then.
func (s *schedule) playWithin(t *testing.T, patience time.Duration) result {
	t.Helper()
	endless := time.AfterFunc(patience, func() { panic(fmt.Sprintf("this schedule does not end:\n%s", s)) })
	defer endless.Stop()
	return s.play(t)
}

// most is how many writes of a program in a second are enough, several times over: a request that is granted after
// the deadline of its session must not be made again and again.
const most = 60

// maxFailures is how many schedules fail before the explorer gives up.
const maxFailures = 3

// patience is how long a schedule may take, in real time.
const patience = time.Minute

func fromEnvironment(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}
