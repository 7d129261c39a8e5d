package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestRunsByHandAndTicksDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		c := newCluster()
		policies := []jobs.OverlapPolicy{jobs.OverlapSkip, jobs.OverlapCancelOther, jobs.OverlapBufferOne}
		var list []jobs.Job
		for _, p := range policies {
			list = append(list, overlapping(job(string(p), "@every 1s", 700*time.Millisecond), p, 0))
		}
		d := start(t, c.daemon("one").takes(time.Millisecond), list)

		// when people ask for runs all the time
		for i := range 100 {
			for _, p := range policies {
				c.request(recipes.TickRequest{ID: fmt.Sprint(p, i), Job: string(p)})
				go func() { _ = d.RunNow(t.Context(), string(p)) }()
			}
			time.Sleep(131 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		d.drain()

		// then
		for _, p := range policies {
			last := map[time.Time]bool{}
			for at := sec(1); !at.After(sec(30)); at = at.Add(time.Second) {
				require.NotEmpty(t, c.outcomes(string(p))[at], "%s at %s", p, at)
				last[at] = true
			}
			require.Len(t, last, 30)
			require.Empty(t, c.of(string(p)).running)
		}
	})
}

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

func TestARequestThatIsTakenWhenTheDrainBeginsIsRunBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a request whose claim is under way
		c := newCluster()
		d := start(t, c.daemon("one").takes(time.Second), []jobs.Job{job("a", "", time.Second)})
		time.Sleep(2 * time.Second)
		c.request(recipes.TickRequest{ID: "r", Job: "a"})
		time.Sleep(500 * time.Millisecond)

		// when
		d.drain()

		// then
		require.Empty(t, c.standing())
		require.Empty(t, c.of("a").running)
		require.EqualValues(t, 1, d.stats("a").Ran)
	})
}
