package schedules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// All that can go wrong, and all that people do, at random, with ten jobs of
// all policies; every other time the jobs are spread.
func TestWhateverGoesWrongTheBooksBalance(t *testing.T) {
	for seed := range uint64(2) {
		variant(t, fmt.Sprint("seed ", seed), func(t *testing.T, w *world) {
			// given three daemons with a job for each policy, under a lock or without one
			c := &chaos{w: w, random: rand.New(rand.NewPCG(seed, 7)), list: manyJobs(w)}
			if seed%2 == 1 {
				c.options = append(c.options, spread)
			}
			for range 3 {
				c.start()
			}

			// when nothing goes as it should
			for range 35 {
				w.Pass(c.some(10 * time.Second))
				c.happens()
			}
			w.Pass(30 * time.Second)
			w.Heal()
			for _, j := range c.list {
				_, err := w.ledger.Resume(t.Context(), j.Name)
				require.NoError(t, err)
			}
			for _, d := range c.daemons {
				_, err := d.Reconcile(c.list)
				require.NoError(t, err)
			}

			// then all go on afterwards, and the books balance
			before := make(map[string]time.Time)
			for _, j := range c.list {
				before[j.Name] = w.state(j.Name).Last
			}
			w.Pass(90 * time.Second)
			drainAll(c.daemons...)
			for _, j := range c.list {
				require.True(t, w.state(j.Name).Last.After(before[j.Name]), "%s stands still", j.Name)
			}
		})
	}
}

// manyJobs are two for each overlap policy, one of them under locks.
func manyJobs(w *world) (list []jobs.Job) {
	misfires := []jobs.MisfirePolicy{jobs.MisfireOnce, jobs.MisfireAll, jobs.MisfireSkip}
	for i, c := range overlaps {
		for k := range 2 {
			schedule := fmt.Sprintf("@every %ds", 7+3*i+k)
			j := overlapping(w.job(fmt.Sprintf("%s-%d", c.policy, k), schedule, time.Duration(4+5*i)*time.Second), c.policy, c.most)
			j.Misfire.Policy = misfires[(i+k)%len(misfires)]
			if k == 1 {
				j = locked(j, "db", j.Name)
				j.OnPreempt.Then = jobs.PreemptedRequeue
				j.Requirements[0].Priority = 4
				j.Jitter = 2 * time.Second
			}
			list = append(list, j)
		}
	}
	return list
}

// chaos is what happens at random.
type chaos struct {
	w       *world
	random  *rand.Rand
	list    []jobs.Job
	options []option
	daemons []*daemon
	started int
}

// some is a while of at most so long.
func (c *chaos) some(most time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(most))).Truncate(time.Millisecond)
}

// start starts a daemon whose clock is not quite right.
func (c *chaos) start() {
	c.started++
	skew := c.some(time.Second) - 500*time.Millisecond
	c.daemons = append(c.daemons, c.w.daemon(fmt.Sprint("daemon", c.started), c.list, append(c.options, skewed(skew))...))
}

func (c *chaos) happens() {
	t, zk := c.w.T, c.w
	i := c.random.IntN(len(c.daemons))
	d, job := c.daemons[i], c.list[c.random.IntN(len(c.list))].Name
	id, _ := d.client.Session()
	later := func(f func()) {
		after := c.some(20 * time.Second)
		go func() { <-time.After(after); f() }()
	}
	what := c.random.IntN(13)
	if !d.isConnected() && (what == 3 || what == 10) {
		return // it is cut off as it is
	}
	switch what {
	case 0:
		zk.Expire(id)
	case 1:
		zk.Disconnect(id)
	case 2:
		zk.StallPings(id)
	case 3:
		d.cut()
		later(func() { zk.Heal(d.name) })
	case 4:
		later(zk.On(zktest.Op(zktest.Multi).From(d.name).Nth(1 + c.random.IntN(3))).DropReply().Remove)
	case 5:
		later(zk.On(zktest.Op(zktest.Multi).From(d.name).Nth(1 + c.random.IntN(3))).DropRequest().Remove)
	case 6:
		later(zk.On(zktest.Any().From(d.name).Nth(1 + c.random.IntN(3))).Delay(c.some(3 * time.Second)).Remove)
	case 7:
		c.w.ask(job, "because")
	case 8:
		_, err := c.w.ledger.Pause(t.Context(), job, ticks.Pause{By: "ana", Until: time.Now().Add(c.some(time.Minute))})
		require.NoError(t, err)
	case 9: // it is restarted
		zk.Heal(d.name)
		d.stop()
		<-d.ended
		c.daemons = append(c.daemons[:i], c.daemons[i+1:]...)
		c.start()
	case 10: // it dies
		d.kill()
		c.daemons = append(c.daemons[:i], c.daemons[i+1:]...)
		c.start()
	case 12: // no daemon is there for a while
		for _, d := range c.daemons {
			zk.Heal(d.name)
			d.stop()
			<-d.ended
		}
		c.daemons = nil
		c.w.Pass(c.some(2 * time.Minute))
		for range 3 {
			c.start()
		}
	case 11: // it has other jobs, and other policies for them
		list := slices.Clone(c.list[c.random.IntN(4):])
		for i := range list {
			list[i].Overlap = c.list[c.random.IntN(len(c.list))].Overlap
			list[i].Misfire.Policy = jobs.MisfirePolicy(jobs.MisfirePolicies()[c.random.IntN(3)])
			list[i].Misfire.Window = []time.Duration{2 * time.Second, time.Minute, time.Hour}[c.random.IntN(3)]
			list[i].Jitter = []time.Duration{0, 2 * time.Second, 35 * time.Second}[c.random.IntN(3)]
		}
		_, err := d.Reconcile(list)
		require.NoError(t, err)
	}
}
