package schedules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// claims are the transactions that claim a run of job a.
func claims() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Create).Path("/lockkeeper/ticks/a/run-*")
}

// ends are the transactions that record the end of a run of job a.
func ends() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Delete).Path("/lockkeeper/ticks/a/run-*")
}

func TestATickWhoseClaimIsNotAnsweredRunsOnce(t *testing.T) {
	cases := map[string]struct {
		fault   func(w *world, d *daemon) // when the claim was executed, and its reply is on the way
		outcome []string
	}{
		"the connection breaks": {func(w *world, d *daemon) {
			id, _ := d.client.Session()
			w.zk.Disconnect(id)
		}, []string{"ran", "ran"}},
		"the session expires": {func(_ *world, d *daemon) { d.expire() }, []string{"ran", "ran"}},
		"the daemon dies":     {func(_ *world, d *daemon) { d.kill() }, []string{"interrupted", "ran"}},
		"it is cut off until the next tick is due": {func(w *world, d *daemon) {
			d.cut()
			go func() { <-time.After(70 * time.Second); w.zk.Heal(d.name) }()
		}, []string{"interrupted", "ran"}},
		"it is cut off for a moment": {func(w *world, d *daemon) {
			d.cut()
			go func() { <-time.After(4 * time.Second); w.zk.Heal(d.name) }()
		}, []string{"ran", "ran"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				// given a daemon that is ahead, and another one
				list := []jobs.Job{locked(w.job("a", "@every 1m", 10*time.Second), "db")}
				ahead := w.daemon("ahead", list, skewed(500*time.Millisecond))
				two := w.daemon("two", list)
				lost := w.zk.On(claims().From("ahead").Nth(1)).HoldReply()

				// when the answer to its claim does not come
				<-lost.Reached()
				require.Len(t, w.state("a").Runs, 1)
				require.Empty(t, w.worked("a"))
				c.fault(w, ahead)
				lost.Release()
				w.until(3*time.Minute - 10*time.Second)

				// then the tick has one outcome
				require.Equal(t, c.outcome, w.outcomes("a"))
				drainAll(two)
			})
		})
	}
}

func TestARunWhoseEndIsNotAnsweredEndsOnce(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Fault) *zktest.Rule{"request": (*zktest.Fault).DropRequest, "reply": (*zktest.Fault).DropReply} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				list := []jobs.Job{overlapping(w.job("a", "@every 10s", 12*time.Second), jobs.OverlapBufferOne, 0)}
				one, two := w.daemon("one", list), w.daemon("two", list, skewed(-time.Second))
				fault(w.zk.On(ends().Nth(1).Times(3)))
				w.until(time.Minute + 5*time.Second)
				drainAll(one, two)
				requireTicks(t, w.outcomes("a"), "ran", "ran", "ran")
			})
		})
	}
}

// A session that ends while a run goes on: under a lock the work is told to
// stop, and the tick is interrupted or lost, once.
func TestASessionThatEndsInTheMiddleOfARun(t *testing.T) {
	for _, underLock := range []bool{false, true} {
		for _, stalled := range []bool{false, true} {
			t.Run(fmt.Sprintf("lock %t, stalled %t", underLock, stalled), func(t *testing.T) {
				story(t, func(t *testing.T, w *world) {
					// given two daemons with a job
					j := w.job("a", "@every 1m", 40*time.Second)
					if underLock {
						j = locked(j, "db")
					}
					one, two := w.daemon("one", []jobs.Job{j}), w.daemon("two", []jobs.Job{j}, skewed(-time.Second))
					w.until(time.Minute + 5*time.Second)
					owner := one
					if w.state("a").Runs[0].Owner == "two" {
						owner = two
					}

					// when the session of the one that runs it ends
					if stalled {
						id, _ := owner.client.Session()
						require.True(t, w.zk.StallPings(id))
					} else {
						owner.expire()
					}
					w.until(4*time.Minute - 5*time.Second)
					drainAll(one, two)

					// then the work under a lock was told, and all other ticks have run
					call := w.worked("a")[0]
					want := "ran" // nobody has asked whether its session lives
					if underLock {
						require.Less(t, call.ended, 80*time.Second)
						require.ErrorAs(t, call.cause, new(*recipes.LostError))
						want = "lost"
					}
					require.Equal(t, []string{want, "ran", "ran"}, w.outcomes("a"))
				})
			})
		}
	}
}

// All that can go wrong, at random, for an hour of ten jobs with all policies.
func TestWhateverGoesWrongTheBooksBalance(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				// given three daemons with a job for each policy, under a lock or without one
				random := rand.New(rand.NewPCG(seed, 7))
				var list []jobs.Job
				for i, c := range overlaps {
					for k := range 2 {
						j := overlapping(w.job(fmt.Sprintf("%s-%d", c.policy, k), fmt.Sprintf("@every %ds", 7+3*i+k), time.Duration(4+5*i)*time.Second), c.policy, c.most)
						j.Misfire.Policy = []jobs.MisfirePolicy{jobs.MisfireOnce, jobs.MisfireAll, jobs.MisfireSkip}[(i+k)%3]
						if k == 1 {
							j = locked(j, "db", j.Name)
							j.OnPreempt.Then = jobs.PreemptedRequeue
							j.Requirements[1].Priority = 3
						}
						list = append(list, j)
					}
				}
				daemons := []*daemon{w.daemon("one", list, skewed(700*time.Millisecond)), w.daemon("two", list), w.daemon("three", list, skewed(-400*time.Millisecond))}

				// when their network is bad
				for range 60 {
					pass(time.Duration(random.IntN(10_000)) * time.Millisecond)
					d := daemons[random.IntN(len(daemons))]
					id, _ := d.client.Session()
					switch random.IntN(6) {
					case 0:
						w.zk.Expire(id)
					case 1:
						w.zk.Disconnect(id)
					case 2:
						w.zk.StallPings(id)
					case 3:
						d.cut()
						heal := time.Duration(random.IntN(20)) * time.Second
						go func() { <-time.After(heal); w.zk.Heal(d.name) }()
					case 4:
						rule := w.zk.On(zktest.Op(zktest.Multi).From(d.name).Nth(1 + random.IntN(3)))
						r := rule.DropReply()
						go func() { <-time.After(5 * time.Second); r.Remove() }()
					case 5:
						rule := w.zk.On(zktest.Any().From(d.name).Nth(1 + random.IntN(3)))
						r := rule.Delay(time.Duration(random.IntN(3000)) * time.Millisecond)
						go func() { <-time.After(5 * time.Second); r.Remove() }()
					}
				}
				pass(30 * time.Second)
				w.zk.Heal()

				// then all go on afterwards, and the books balance
				before := make(map[string]time.Time)
				for _, j := range list {
					before[j.Name] = w.state(j.Name).Last
				}
				pass(90 * time.Second)
				drainAll(daemons...)
				for _, j := range list {
					require.True(t, w.state(j.Name).Last.After(before[j.Name]), "%s stands still", j.Name)
				}
			})
		})
	}
}
