package scheduler

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/override"
)

// overrides are those that a daemon knows of.
type overrides struct {
	late time.Duration // how much too late it sees that one has ended

	mu      sync.Mutex
	all     []override.Override
	changed chan struct{}
}

func (o *overrides) Paused(job string, labels map[string]string) (*override.Override, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	now, next := override.InForce(o.all, time.Now().Add(-o.late))
	if changed := o.changed; !next.IsZero() {
		time.AfterFunc(time.Until(next.Add(o.late)), func() { o.tell(changed) })
	}
	return now.Paused(job, labels), o.changed
}

// tell closes a channel that is not closed yet.
func (o *overrides) tell(changed chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == changed && changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func (o *overrides) set(all ...override.Override) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = all
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func with(o *overrides) option { return func(c *Config) { c.Overrides = o } }

func pauseOf(match override.Match, until time.Time) override.Override {
	return override.Override{ID: "INC-1", Kind: override.Pause, Match: match, Until: until, By: "ana", Reason: "disk is full"}
}

func TestTicksThatAnOverridePausesAreSkippedUpToItsEnd(t *testing.T) {
	for name, late := range map[string]time.Duration{"on time": 0, "its end is seen late": 3 * time.Second} {
		bubble(t, name, func(t *testing.T, c *cluster) {
			// given
			o := &overrides{late: late}
			free := job("b", "@every 10s", time.Second)
			paused := locked(job("a", "@every 10s", time.Second))
			paused.Labels = map[string]string{"team": "orders"}
			d := start(t, c.daemon("one"), []jobs.Job{paused, free}, with(o))

			// when
			time.Sleep(15 * time.Second)
			o.set(pauseOf(override.Match{Labels: map[string]string{"team": "orders"}}, sec(50)))
			time.Sleep(20 * time.Second)
			byHand := d.RunNow(t.Context(), "a")
			time.Sleep(30 * time.Second)
			d.drain()

			// then
			require.NoError(t, byHand)
			require.Equal(t, []string{"ran", "paused", "paused", "paused", "ran", "ran"}, outcomesOf(t, c, "a", sec(10), sec(60), 10*time.Second))
			requireOnce(t, c, "b", sec(10), sec(60), 10*time.Second, "ran")
			require.Equal(t, 3, d.log.lines("tick skipped", "level=INFO", "reason=paused", "paused by the override INC-1 of ana until 2000-01-01T00:00:50Z: disk is full"))
			require.EqualValues(t, 3, d.stats("a").Skipped[SkipPaused])
			require.Equal(t, "paused", d.guard.skipped[0].Reason)
		})
	}
}

func TestTicksThatWaitStayWhileAnOverridePausesTheirJob(t *testing.T) {
	for name, end := range map[string]func(o *overrides){
		"it ends by itself": func(*overrides) { time.Sleep(21 * time.Second) }, // between two looks
		"somebody takes it back": func(o *overrides) {
			time.Sleep(11*time.Second + 500*time.Millisecond)
			o.set()
			time.Sleep(500 * time.Millisecond)
		},
	} {
		bubble(t, name, func(t *testing.T, c *cluster) {
			// given a tick that waits for the end of a run
			o := &overrides{}
			j := job("a", "@every 10s", 15*time.Second)
			j.Overlap = jobs.Overlap{Policy: jobs.OverlapBufferOne}
			d := start(t, c.daemon("one"), []jobs.Job{j}, with(o))
			time.Sleep(21 * time.Second) // since 10s a run, since 20s a tick

			// when
			o.set(pauseOf(override.Match{Job: "a"}, sec(51)))
			time.Sleep(9*time.Second + 500*time.Millisecond) // the run has ended at 25s

			// then
			require.Empty(t, c.outcomes("a")[sec(20)])
			require.Equal(t, "ran", c.outcomes("a")[sec(10)][0])

			// when
			end(o)
			c.mu.Lock()
			running := len(c.of("a").running)
			c.mu.Unlock()
			require.Equal(t, 1, running, "at once, not at the next poll")
			time.Sleep(15 * time.Second)
			d.drain()
			require.Equal(t, []string{"ran"}, c.outcomes("a")[sec(20)])
			require.Equal(t, []string{"paused"}, c.outcomes("a")[sec(40)])
		})
	}
}

func TestASchedulerStopsWhileTicksWaitForTheEndOfAnOverride(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		o := &overrides{}
		j := job("a", "@every 10s", 15*time.Second)
		j.Overlap = jobs.Overlap{Policy: jobs.OverlapBufferOne}
		d := start(t, c.daemon("one"), []jobs.Job{j}, with(o))
		time.Sleep(21 * time.Second)
		o.set(pauseOf(override.Match{}, sec(10_000)))
		time.Sleep(20 * time.Second)
		began := time.Now()
		d.drain()
		require.Less(t, time.Since(began), time.Second)
	})
}
