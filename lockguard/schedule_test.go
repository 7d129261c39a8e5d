package lockguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Overrides that come and go at random, while many requests for one
// lock and for several are made: nobody hangs, nobody begins what is frozen,
// and whoever works has what was made of its request.
func TestManyRequestsUnderOverridesThatComeAndGo(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { comeAndGo(t, seed) })
		})
	}
}

func comeAndGo(t *testing.T, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // the same ones again for the same seed
	pick := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	scopes := []string{"a", "b", "c"}
	o := newOperated(t, WithLogger(quiet()))
	o.locker.before = o.queue.wait
	o.queue.exclusive, o.queue.held = true, map[string]*queuePlace{}
	o.queue.delay = func() time.Duration { return time.Duration(pick(3)) * time.Millisecond }
	o.audit.write = func(context.Context, recipes.AuditEntry) error {
		time.Sleep(time.Duration(pick(4)) * time.Millisecond)
		if pick(10) == 0 {
			return errAudit
		}
		return nil
	}
	var working sync.Map // by scope
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for ctx.Err() == nil {
				var requirements []Requirement
				for _, n := range rand.New(rand.NewPCG(seed, uint64(pick(1000)))).Perm(3)[:1+pick(3)] { //nolint:gosec // likewise
					r := Requirement{Scope: scopes[n], Priority: priority.Level(pick(10)), Owner: fmt.Sprint("job-", i)}
					if pick(3) == 0 {
						r.AcquireTimeout = new(time.Duration(pick(100)) * time.Millisecond)
					}
					requirements = append(requirements, r)
				}
				err := o.DoAll(ctx, requirements, func(ctx context.Context) error {
					hold, _ := FromContext(ctx)
					for _, h := range hold.tenures() {
						if h.bypass != nil {
							continue
						}
						_, busy := working.LoadOrStore(h.claim.about.Scope, i)
						require.False(t, busy, "alone under the lock")
						defer working.Delete(h.claim.about.Scope)
						if by := h.claim.frozen(); by != nil { // since this very instant
							require.Equal(t, time.Now(), o.overrides.since(), "nobody begins what is frozen: %s", by)
						}
					}
					time.Sleep(time.Duration(pick(20)) * time.Millisecond)
					return nil
				})
				ended := ctx.Err() != nil
				require.True(t, err == nil || ended || errors.As(err, new(*recipes.NotAcquiredError)), "%v", err)
			}
		})
	}
	for range 60 {
		time.Sleep(time.Duration(pick(100)) * time.Millisecond)
		o.overrides.put(randomOverrides(pick, scopes)...)
	}
	o.overrides.put()
	time.Sleep(2 * time.Second)

	// At the end all is as declared: nobody waits for a freeze, nobody is changed.
	before := len(o.events.list())
	time.Sleep(5 * time.Second)
	list := o.events.list() // once: it goes on
	declared, old := make(map[string]priority.Level), make(map[string]bool)
	for i, event := range list {
		if w, ok := event.(Waiting); ok {
			declared[w.ID], old[w.ID] = w.Priority, i < before
		}
	}
	for _, event := range list[before:] {
		switch e := event.(type) {
		case Frozen, Bypassed:
			require.Fail(t, "nothing is in force", "%T %+v", e, e)
		case Thawed: // one of several is made again in its turn, and that may take long
			require.True(t, old[e.ID], "nothing is in force: %+v", e)
		case Overridden:
			require.True(t, old[e.ID] && len(e.Effect.Applied) == 0, "nothing is in force: %+v", e)
		case Acquired:
			require.Equal(t, declared[e.ID], e.Priority, "as declared again")
		}
	}
	require.Greater(t, len(list), before+50, "work goes on")
	stop()
	all.Wait()
	require.Empty(t, o.queue.held)
	require.Empty(t, o.queue.places)
	checkLives(t, o.events.list())
}

// randomOverrides are up to three.
func randomOverrides(pick func(int) int, scopes []string) []override.Override {
	var all []override.Override
	for i := range pick(4) {
		o := incident([]override.Kind{override.Boost, override.Cap, override.Freeze, override.Freeze, override.Extend, override.Bypass}[pick(6)])
		o.ID = fmt.Sprint("INC-", i)
		if pick(2) == 0 {
			o.Match.Scope = scopes[pick(3)]
		}
		switch o.Kind {
		case override.Boost, override.Cap:
			o.Priority = new(priority.Level(pick(12)))
		case override.Freeze:
			o.Match.PriorityBelow = new(priority.Level(1 + pick(15)))
		case override.Extend:
			o.LeaseTimeout, o.AcquireTimeout = new(time.Hour), new(time.Duration(pick(200))*time.Millisecond)
		case override.Hold, override.PreemptNow, override.Pause, override.Bypass:
		}
		all = append(all, o)
	}
	return all
}

// checkLives checks that the events of each request make sense.
func checkLives(t *testing.T, all []Event) {
	t.Helper()
	lives := make(map[string][]Event)
	for _, event := range all {
		id := event.About().ID
		lives[id] = append(lives[id], event)
	}
	for _, life := range lives {
		frozen, level, over := false, priority.Level(0), false
		for i, event := range life {
			require.False(t, over, "nothing comes after the end: %T", event)
			require.Equal(t, i == 0, isWaiting(event), "%T", event)
			switch e := event.(type) {
			case Waiting:
				level = e.Priority
			case Frozen:
				require.False(t, frozen, "told once")
				frozen = true
			case Thawed:
				require.True(t, frozen, "thawed before it froze")
				frozen = false
			case Overridden:
				level = e.Effect.Terms.Priority
			case Acquired:
				require.False(t, frozen, "granted while it is frozen")
			case NotAcquired, Released:
				over = true
			}
			require.Equal(t, level, event.About().Priority, "%T", event)
		}
		require.True(t, over, "every request comes to an end: %T", life[len(life)-1])
	}
}

func isWaiting(event Event) bool {
	_, ok := event.(Waiting)
	return ok
}
