package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// chaosSeeds is how many histories are tried; each is the same in every run.
const chaosSeeds = 60

// Whatever happens to daemons, each with a version of the job of its own, each
// tick ends in exactly one way.
func TestEachTickEndsOnceWhateverHappensToDaemons(t *testing.T) {
	seeds := uint64(chaosSeeds)
	if testing.Short() {
		seeds /= 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given
				c := &chaos{T: t, rand: rand.New(rand.NewPCG(seed, 1)), cluster: newCluster()}
				c.boot(0)
				time.Sleep(15 * time.Second) // in which the job begins

				// when
				for range 25 {
					time.Sleep(c.some(time.Minute) + time.Microsecond) // to no instant of the schedule
					c.step()
				}

				// then
				c.settle()
				c.check()
			})
		})
	}
}

const chaosPeriod = 10 * time.Second

type chaos struct {
	*testing.T
	rand    *rand.Rand
	cluster *cluster
	daemons []*daemon // that live
	silent  *daemon   // one of them, to which ZooKeeper does not answer
	booted  int
	history []string
}

func (c *chaos) tell(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf("%9s ", time.Since(epoch).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (c *chaos) require(ok bool, format string, args ...any) {
	c.Helper()
	if !ok {
		c.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(c.history, "\n"))
	}
}

func oneOf[T any](c *chaos, of ...T) T { return of[c.rand.IntN(len(of))] }

// some returns a duration of whole milliseconds, shorter than another one.
func (c *chaos) some(upTo time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(upTo.Milliseconds())) * time.Millisecond
}

// version is some version of the job.
func (c *chaos) version() jobs.Job {
	j := job("a", "@every 10s", oneOf(c, time.Millisecond, 3*time.Second, 12*time.Second, 45*time.Second))
	j.Overlap.Policy = jobs.OverlapPolicy(oneOf(c, jobs.OverlapPolicies()...))
	j.Misfire.Policy = jobs.MisfirePolicy(oneOf(c, jobs.MisfirePolicies()...))
	j.Misfire.Window = oneOf(c, 2*time.Second, time.Minute, time.Hour)
	j.Jitter = oneOf(c, 0, 5*time.Second, 35*time.Second)
	if oneOf(c, true, false) {
		j = locked(j)
	}
	c.tell("  %s, misfire %s %s, jitter %s, locks %d", j.Overlap.Policy, j.Misfire.Policy, j.Misfire.Window, j.Jitter, len(j.Requirements))
	return j
}

func (c *chaos) boot(jitter ...time.Duration) {
	c.booted++
	c.tell("daemon %d starts", c.booted)
	j := c.version()
	for _, d := range jitter {
		j.Jitter = d
	}
	l := c.cluster.daemon(fmt.Sprint(c.booted)).takes(oneOf(c, 0, 20*time.Millisecond))
	c.daemons = append(c.daemons, start(c.T, l, []jobs.Job{j}, withSkew(c.some(2*time.Second))))
}

// take takes a daemon out that ZooKeeper answers, if there is one.
func (c *chaos) take() *daemon {
	for i, d := range c.daemons {
		if d != c.silent {
			c.daemons = append(c.daemons[:i:i], c.daemons[i+1:]...)
			return d
		}
	}
	return nil
}

func (c *chaos) step() {
	switch c.rand.IntN(7) {
	case 0, 1:
		if len(c.daemons) < 3 {
			c.boot()
		}
	case 2:
		if d := c.take(); d != nil {
			c.tell("daemon %s is killed", d.ledger.name)
			d.kill()
		}
	case 3:
		if d := c.take(); d != nil {
			c.tell("daemon %s stops", d.ledger.name)
			d.stop()
		}
	case 4:
		d := c.take()
		if d != nil && c.silent == nil {
			c.tell("daemon %s is cut off", d.ledger.name)
			d.ledger.down()
			c.silent = d
		}
		if d != nil {
			c.daemons = append(c.daemons, d)
		}
	case 5:
		c.reconnect()
	case 6:
		if len(c.daemons) > 0 {
			d := oneOf(c, c.daemons...)
			c.tell("daemon %s is reloaded", d.ledger.name)
			_, err := d.Reconcile([]jobs.Job{c.version()})
			require.NoError(c, err)
		}
	}
}

func (c *chaos) reconnect() {
	if c.silent != nil {
		c.tell("daemon %s is back", c.silent.ledger.name)
		c.silent.ledger.up()
		c.silent = nil
	}
}

// settle gives all ticks the time to end.
func (c *chaos) settle() {
	c.reconnect()
	c.boot()
	time.Sleep(10 * time.Minute)
	for _, d := range c.daemons {
		d.drain()
	}
	time.Sleep(time.Minute) // for those that were stopped
	c.tell("end")
}

func (c *chaos) check() {
	job := c.cluster.of("a")
	ended := len(job.waiting) + len(job.running) // of the killed, and not found yet
	first := job.last
	for at, outcomes := range job.outcomes {
		c.require(len(outcomes) == 1, "the tick at %s has ended as %v", at.Sub(epoch), outcomes)
		count := 1
		if _, many, ok := strings.Cut(outcomes[0], " x"); ok {
			var err error
			count, err = strconv.Atoi(many)
			require.NoError(c, err)
		}
		ended += count
		if at.Before(first) {
			first = at.Add(-time.Duration(count-1) * chaosPeriod)
		}
	}
	c.require(job.last.After(minute(10)), "the job stands still since %s", job.last)
	want := int(job.last.Sub(first)/chaosPeriod) + 1
	c.require(ended == want, "of %d ticks %d have ended: %v", want, ended, job.outcomes)
}
