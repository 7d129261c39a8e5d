package sharing_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
)

type server struct{ closed int }

func (s *server) Close() error {
	s.closed++
	return nil
}

func TestServerIsStartedOnceAndClosedAfterTheTestsAndBeforeTheChecks(t *testing.T) {
	t.Parallel()
	var one sharing.One[*server]
	var first, second *server
	start := func() (*server, error) { return &server{}, nil }
	code := one.Main(func() int {
		first, _ = one.Get(start)
		again, _ := one.Get(start)
		require.Same(t, first, again)
		one.PutAside(func(*server) bool { return false })
		again, _ = one.Get(start)
		require.Same(t, first, again)

		// one that is broken is replaced, and closed at the end as well
		one.PutAside(func(s *server) bool { return s == first })
		second, _ = one.Get(start)
		require.NotSame(t, first, second)
		require.Zero(t, first.closed+second.closed)
		return 0
	}, func() error {
		require.Equal(t, []int{1, 1}, []int{first.closed, second.closed})
		return nil
	})
	require.Zero(t, code)
}

func TestWhatACheckFindsMakesTheTestsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var one sharing.One[*server]
		begin := time.Now()
		leak := func(after time.Duration) func() error {
			return func() error {
				if time.Since(begin) > after {
					return nil
				}
				return errors.New("a goroutine is left (printed by a test)")
			}
		}
		require.Equal(t, 0, one.Main(func() int { return 0 }, leak(30*time.Second)), "a busy machine ends it late")
		require.Equal(t, 1, one.Main(func() int { return 0 }, leak(time.Hour)))
		require.Equal(t, 2, one.Main(func() int { return 2 }, func() error {
			t.Error("after a failure nothing is checked")
			return nil
		}))
	})
}

func TestStartThatFailedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	var one sharing.One[*server]
	down := errors.New("down")
	for range 2 {
		_, err := one.Get(func() (*server, error) {
			defer func() { down = errors.New("another") }()
			return nil, down
		})
		require.EqualError(t, err, "down")
	}
}
