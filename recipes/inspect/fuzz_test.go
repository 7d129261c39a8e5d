package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Any client may have written the numbers that a state is made of: what is foreseen ends, and says something of each waiter.
func FuzzOutlook(f *testing.F) {
	f.Add(int64(60_000), int64(1000), int64(1000), int64(0), int32(5), true)
	f.Add(int64(-1), int64(1)<<62, int64(-1)<<62, int64(1)<<62, int32(-1), false)
	f.Fuzz(func(t *testing.T, lease, left, cleanup, waiting int64, level int32, forceful bool) {
		terms := priority.Terms{
			Priority: priority.Level(level), LeaseTimeout: time.Duration(lease), CleanupTimeout: time.Duration(cleanup),
			WaitingTimeout: new(time.Duration(waiting)), AcquireTimeout: new(time.Duration(left)), Forceful: forceful,
		}
		odd := lock.Contender{ID: "a", Terms: terms, Remaining: priority.Remaining{LeaseLeft: time.Duration(left)}}
		other := lock.Contender{ID: "b", Terms: priority.Terms{Priority: 5}}
		s := lock.State{Scope: "a", Holders: []lock.Contender{odd}, Waiters: []lock.Contender{odd, other}, At: time.UnixMilli(left)}
		require.Len(t, Outlook(s), 2)
		WaitFor([]lock.State{s})
	})
}
