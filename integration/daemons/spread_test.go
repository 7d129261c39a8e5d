package daemons

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// owners returns who owns each job, once each of the daemons owns as many.
func owners(t *testing.T, c *recipes.Client, daemons int) map[string]string {
	t.Helper()
	owners := map[string]string{}
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		groups, _, err := c.Groups(ctx)
		if err != nil || len(groups) != 1 {
			return false
		}
		clear(owners)
		share := map[string]int{}
		for _, lock := range groups[0].Locks {
			if len(lock.Holders) == 1 && !lock.Holders[0].Releasing {
				owners[lock.Lock] = lock.Holders[0].Name
				share[lock.Holders[0].Name]++
			}
		}
		for _, n := range share {
			if n != crowdSize/daemons {
				return false
			}
		}
		return len(share) == daemons
	}, patience, 10*time.Millisecond, "the jobs are not spread over %d daemons", daemons)
	return owners
}

// awaitAll waits until each job has run, anywhere, at an instant after goal.
func (c *chronicle) awaitAll(goal time.Time) {
	c.t.Helper()
	c.await("each job runs after "+goal.String(), func(marks []mark) bool {
		ran := map[string]bool{}
		for _, m := range marks {
			if m.What == began && m.Instant.After(goal) {
				ran[m.Job] = true
			}
		}
		return len(ran) == crowdSize
	})
}

func TestJobsThatAreSpreadBelongToOneDaemonEachAndAreTakenOverWhenItIsKilled(t *testing.T) {
	t.Parallel()
	const expiry = 2 * time.Second
	// given two daemons that share their jobs
	story := newChronicle(t)
	survivor := settings{Name: "survivor", ZK: shared.Server(t).Connect(), Root: zkserver.Root(t), Session: expiry, Drain: -1, Spread: true}
	victim := survivor
	victim.Name, victim.Cast = "victim", "crowd"
	k := startChild(t, story, victim)
	s := start(t, story, survivor, crowd(survivor.Name, story.add)...)
	owner := owners(t, s.client, 2)
	require.Len(t, owner, crowdSize)

	// then each job runs where it belongs, and the other one does not even ask for its ticks
	settled := time.Now()
	before := s.scheduler.Stats()
	story.awaitAll(settled.Add(4 * time.Second))
	ran := map[string]int{}
	for _, m := range where(story.all(), func(m mark) bool { return m.What == began && m.Instant.After(settled) }) {
		require.Equal(t, owner[m.Job], m.Daemon, m.String())
		ran[m.Job]++
	}
	require.Len(t, ran, crowdSize)
	for job, stats := range s.scheduler.Stats() {
		if owner[job] == victim.Name {
			require.Equal(t, before[job].Total(), stats.Total(), job)
		}
	}

	// when one is killed
	k.kill()
	killed := time.Now()

	// then all jobs are the other one's, and it runs them
	took := time.Duration(0)
	for job := range owners(t, s.client, 1) {
		m := story.next(killed, survivor.Name, job, began)
		took = max(took, m.At.Sub(killed))
	}
	t.Logf("all jobs run on the survivor %s after the kill; the session lasted %s", took.Round(time.Millisecond), expiry)
	require.Less(t, took, expiry+20*time.Second)
	story.awaitAll(time.Now().Add(2 * time.Second))
	s.end()

	// and no tick has run twice
	grid := gridOf(story.all())
	for _, job := range grid.jobs() {
		for instant, marks := range grid[job] {
			require.LessOrEqual(t, len(where(marks, func(m mark) bool { return m.What == began })), 1, grid.around(job, instant))
		}
	}
	require.Len(t, grid.jobs(), crowdSize)
}
