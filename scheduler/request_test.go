package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestARequestForAJobThatComesWithAReloadIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a request for a job that this daemon does not have, and one that waits for a run
		c := newCluster()
		a, b := job("a", "", time.Second), job("b", "", time.Minute)
		d := start(t, c.daemon("one"), []jobs.Job{b})
		c.request(recipes.TickRequest{ID: "b1", Job: "b"})
		time.Sleep(time.Second)
		c.request(recipes.TickRequest{ID: "b2", Job: "b"})
		c.request(recipes.TickRequest{ID: "a1", Job: "a"})
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"b2", "a1"}, c.standing())

		// when the one comes, and the other goes
		_, err := d.Reconcile([]jobs.Job{a})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"b2"}, c.standing())
		require.EqualValues(t, 1, d.stats("a").Ran)

		// and is back after its run has ended
		time.Sleep(time.Minute)
		_, err = d.Reconcile([]jobs.Job{a, b})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Empty(t, c.standing())
		d.drain()
	})
}

// standing returns the ids of the requests that stand.
func (c *cluster) standing() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		ids = append(ids, r.ID)
	}
	return ids
}
