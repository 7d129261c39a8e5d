package compaction_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/examples/compaction"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCompactionGivesWayAndPutsTheStoreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zk, store := zktest.RunT(t, zktest.Pipe()), &compaction.Store{State: "new"}
		job, operator := guard(t, zk, "job"), guard(t, zk, "operator")
		done := make(chan error, 1)
		go func() { done <- compaction.Compact(t.Context(), job, store) }()
		time.Sleep(time.Hour) // of the bubble: at once
		synctest.Wait()
		require.Equal(t, "half compacted", store.State)

		err := operator.Do(t.Context(), lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 90}},
			func(context.Context) error { require.Equal(t, "as before", store.State); return nil })
		require.NoError(t, err)

		preempted := &lockguard.PreemptedError{}
		require.ErrorAs(t, <-done, &preempted)
		require.EqualValues(t, 90, preempted.Priority)
	})
}

// guard is a process of its own: a client of the server, and a guard.
func guard(t *testing.T, zk *zktest.Server, name string) *lockguard.Guard {
	client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer(name)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	guard, err := lockguard.New(client)
	require.NoError(t, err)
	return guard
}

func TestCompactionRunsOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zk, runs := zktest.RunT(t, zktest.Pipe()), 0
		client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer("daemon")})
		require.NoError(t, err)
		defer client.Close(context.Background())
		daemon, err := lockkeeper.NewScheduler(client, guard(t, zk, "job"), lockkeeper.Job{
			Name: "compact", Schedule: "@every 1h", Requirements: []lockguard.Requirement{{Scope: "cluster/orders"}},
			Work: lockkeeper.Func(func(context.Context, lockkeeper.Run) error { runs++; return nil }),
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- daemon.Run(ctx) }()
		time.Sleep(6*time.Hour + 30*time.Minute) // of the bubble: at once
		stop()
		require.NoError(t, <-done)
		require.Equal(t, 6, runs)
	})
}

func TestCompactionThatLosesItsLockTouchesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zk, store := zktest.RunT(t, zktest.Pipe()), &compaction.Store{State: "new"}
		job := guard(t, zk, "job")
		done := make(chan error, 1)
		go func() { done <- compaction.Compact(t.Context(), job, store) }()
		time.Sleep(time.Hour)

		zk.Partition("job") // the network is gone
		err := <-done

		lost := &lockguard.LostError{}
		require.ErrorAs(t, err, &lost)
		require.Equal(t, "half compacted", store.State, "somebody else may have the lock now")
		require.Len(t, zk.Sessions(), 1, "but not yet: the server has not freed it")
		zk.Heal("job")
	})
}

func TestCompactionThatIsGrantedWithoutAnAnswerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zk, store := zktest.RunT(t, zktest.Pipe()), &compaction.Store{State: "new"}
		// The transaction that takes the lock is committed, and its answer is lost.
		taken := zk.On(zktest.Op(zktest.Multi).Containing(zktest.Create).Path("/lockkeeper/locks/**").Nth(1)).DropReply()

		require.NoError(t, compaction.Compact(t.Context(), guard(t, zk, "job"), store))

		require.Equal(t, 1, taken.Fired())
		require.Equal(t, "compacted", store.State)
	})
}

// What docs/howto/test-my-job.md shows is what runs here.
func TestDocumentationShowsTheseTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/test-my-job.md")
	require.NoError(t, err)
	code, err := os.ReadFile("compaction_test.go")
	require.NoError(t, err)
	shown := 0
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		require.Contains(t, string(code), block)
		shown++
	}
	require.GreaterOrEqual(t, shown, 3)
}
