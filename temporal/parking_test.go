package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"pgregory.net/rapid"
)

func TestParkingHandsTheSlotToTheReservationThatWaitsLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(t, 1, 1)
		reserve(t, slots)
		var order []string
		for _, name := range []string{"first", "second"} {
			go func() {
				_, err := slots.ReserveSlot(t.Context(), reservation{})
				order = append(order, fmt.Sprint(name, err))
			}()
			synctest.Wait()
		}

		_, parked := slots.Park()
		synctest.Wait()
		require.True(t, parked)
		require.Equal(t, []string{"first<nil>"}, order)

		slots.ReleaseSlot(nil)
		synctest.Wait()
		require.Equal(t, []string{"first<nil>", "second<nil>"}, order)
	})
}

func TestReservationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		slots := newSlots(t, 1, 0)
		reserve(t, slots)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := slots.ReserveSlot(ctx, reservation{})
			ended <- err
		}()
		synctest.Wait()

		// when
		cancel()

		// then
		require.ErrorIs(t, <-ended, context.Canceled) // any other error would be logged by the SDK
		slots.ReleaseSlot(nil)
		_, err := slots.ReserveSlot(ctx, reservation{})
		require.ErrorIs(t, err, context.Canceled)
		require.NotNil(t, slots.TryReserveSlot(reservation{}), "the unused slot is lost")
	})
}

func TestSlotThatIsGrantedAsItsContextEndsGoesToTheNext(t *testing.T) {
	// given two that wait for the only slot
	slots := newSlots(t, 1, 0)
	reserve(t, slots)
	first, err := slots.join(t.Context(), reservation{})
	require.NoError(t, err)
	second, err := slots.join(t.Context(), reservation{})
	require.NoError(t, err)
	slots.ReleaseSlot(nil)
	require.True(t, closed(first))
	require.False(t, closed(second))

	// when
	slots.leave(first)

	// then
	require.True(t, closed(second))
}

func TestSlotsOutOfRangeAreRefused(t *testing.T) {
	_, err := NewParkingSlots(0, 1)
	require.ErrorContains(t, err, "at least 1")
	_, err = NewParkingSlots(1, -1)
	require.ErrorContains(t, err, "cannot be parked")
	_, err = NewParkingTuner(worker.FixedSizeTunerOptions{}, -1)
	require.ErrorContains(t, err, "cannot be parked")
}

func TestTunerHasTheSizesOfTheUserOrOfTheSDK(t *testing.T) {
	set := worker.Options{
		MaxConcurrentActivityExecutionSize: 7, MaxConcurrentLocalActivityExecutionSize: 8,
		MaxConcurrentNexusTaskExecutionSize: 9, MaxConcurrentWorkflowTaskExecutionSize: 10,
	}
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		options worker.Options
		parked  *int // as told
		sizes   []int
		want    int // so many may be parked
	}{
		"set, as many slots as those parked": {set, nil, []int{10, 7, 8, 9, 7}, DefaultMaxParked},
		"default, as told":                   {worker.Options{}, new(5), sizesOf(fixed), 5},
		"default, as many as there are":      {worker.Options{}, nil, sizesOf(fixed), 1000},
	} {
		t.Run(name, func(t *testing.T) {
			lots, err := tune(&c.options, c.parked)
			require.NoError(t, err)
			require.Equal(t, c.sizes, sizesOf(c.options.Tuner))
			require.Len(t, lots, 2)
			require.Equal(t, c.want, lots[0].maxParked)
			require.Equal(t, worker.Options{Tuner: c.options.Tuner}, c.options, "the SDK refuses sizes beside a tuner")
		})
	}
	_, err = tune(&worker.Options{MaxConcurrentWorkflowTaskExecutionSize: 1}, nil)
	require.ErrorContains(t, err, "MaxConcurrentWorkflowTaskExecutionSize", "as the SDK does")
}

func TestWorkerWhoseActivitiesMayNotParkKeepsItsSlots(t *testing.T) {
	options := worker.Options{MaxConcurrentActivityExecutionSize: 7}
	lots, err := tune(&options, new(0))
	require.NoError(t, err)
	require.Empty(t, lots)
	require.Equal(t, worker.Options{MaxConcurrentActivityExecutionSize: 7}, options)
	unpark, full := lots.park("orders")
	require.False(t, full)
	unpark()
}

func TestTunerOfTheUserStays(t *testing.T) {
	// one that knows nothing of parking
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{})
	require.NoError(t, err)
	options := worker.Options{Tuner: fixed}
	lots, err := tune(&options, nil)
	require.NoError(t, err)
	require.Same(t, fixed, options.Tuner)
	require.Empty(t, lots)

	// one that has parking slots
	own, err := NewParkingTuner(worker.FixedSizeTunerOptions{NumActivitySlots: 1}, 1)
	require.NoError(t, err)
	options = worker.Options{Tuner: own}
	lots, err = tune(&options, nil)
	require.NoError(t, err)
	require.Same(t, own, options.Tuner)
	require.Len(t, lots, 2)
}

func TestActivityIsParkedWhereItsSlotIsFrom(t *testing.T) {
	// given a worker with sessions
	var options worker.Options
	lots, err := tune(&options, nil)
	require.NoError(t, err)
	activities, sessions := options.Tuner.GetActivityTaskSlotSupplier(), options.Tuner.GetSessionActivitySlotSupplier()
	_, err = activities.ReserveSlot(t.Context(), reservation{queue: "orders"})
	require.NoError(t, err)
	require.NotNil(t, sessions.TryReserveSlot(reservation{queue: "orders-of-this-process"}))

	// when
	unpark, _ := lots.park("orders-of-this-process")
	elsewhere, _ := lots.park("elsewhere")
	elsewhere()

	// then
	require.Equal(t, 1000, activities.MaxSlots())
	require.Equal(t, 1001, sessions.MaxSlots())
	unpark()
	require.Equal(t, 1000, sessions.MaxSlots())
}

// No slot is lost and none is made up, whatever happens in whatever order.
func TestSlotsAreKeptCountOf(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size, maxParked := rapid.IntRange(1, 3).Draw(rt, "size"), rapid.IntRange(0, 3).Draw(rt, "max parked")
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"reserve", "try", "cancel", "park", "unpark", "unpark twice", "release"}), 1, 60).Draw(rt, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 11), len(steps), len(steps)).Draw(rt, "picks")
		var problem error
		synctest.Test(t, func(t *testing.T) {
			g := &garage{slots: newSlots(t, size, maxParked)}
			for i, step := range steps {
				g.play(t.Context(), step, picks[i])
				synctest.Wait()
				if problem = g.judge(); problem != nil {
					problem = fmt.Errorf("after step %d, %s %d: %w", i, step, picks[i], problem)
					break
				}
			}
			g.close()
			synctest.Wait()
			problem = errors.Join(problem, g.judgeEmpty())
		})
		require.NoError(rt, problem)
	})
}

// Likewise with everything at once; it is the race detector that is asked.
func TestSlotsCanBeUsedFromEverywhere(t *testing.T) {
	const size, maxParked = 2, 3
	slots := newSlots(t, size, maxParked)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 0 {
					go cancel()
				}
				_, err := slots.ReserveSlot(ctx, reservation{})
				cancel()
				if err == nil {
					unpark, _ := slots.Park()
					unpark()
					slots.ReleaseSlot(nil)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, (&garage{slots: slots}).judgeEmpty())
}

// garage is what a worker would remember.
type garage struct {
	slots    *ParkingSlots
	pending  []*pending
	permits  []*worker.SlotPermit // of those that run
	parked   []func()             // unpark, one for each permit that is parked
	problems []error
}

// pending is a reservation that has not been answered.
type pending struct {
	cancel context.CancelFunc
	done   chan struct{}
	permit *worker.SlotPermit
}

func (g *garage) play(ctx context.Context, step string, pick int) {
	switch step {
	case "reserve":
		ctx, cancel := context.WithCancel(ctx)
		p := &pending{cancel: cancel, done: make(chan struct{})}
		g.pending = append(g.pending, p)
		go func() {
			defer close(p.done)
			p.permit, _ = g.slots.ReserveSlot(ctx, reservation{})
		}()
	case "try":
		free := g.running() < g.slots.size
		permit := g.slots.TryReserveSlot(reservation{})
		if (permit != nil) != free {
			g.problems = append(g.problems, fmt.Errorf("TryReserveSlot returned %v while %d run", permit, g.running()))
		}
		if permit != nil {
			g.permits = append(g.permits, permit)
		}
	case "cancel":
		if len(g.pending) > 0 {
			g.pending[pick%len(g.pending)].cancel()
		}
	case "park":
		if len(g.parked) == len(g.permits) {
			return
		}
		unpark, parked := g.slots.Park()
		if parked != (len(g.parked) < g.slots.maxParked) {
			g.problems = append(g.problems, fmt.Errorf("Park returned %t while %d are parked", parked, len(g.parked)))
		}
		if parked {
			g.parked = append(g.parked, unpark)
		} else {
			unpark()
		}
	case "unpark", "unpark twice":
		if len(g.parked) == 0 {
			return
		}
		i := pick % len(g.parked)
		g.parked[i]()
		if step == "unpark twice" {
			g.parked[i]()
		}
		g.parked = slices.Delete(g.parked, i, i+1)
	case "release":
		if len(g.permits) > len(g.parked) {
			g.permits = g.permits[1:]
			g.slots.ReleaseSlot(nil)
		}
	}
}

func (g *garage) running() int { return len(g.permits) - len(g.parked) }

// judge takes what has been granted, and tells what is wrong.
func (g *garage) judge() error {
	before := g.running()
	var granted int
	g.pending = slices.DeleteFunc(g.pending, func(p *pending) bool {
		select {
		case <-p.done:
		default:
			return false
		}
		p.cancel()
		if p.permit != nil {
			g.permits = append(g.permits, p.permit)
			granted++
		}
		return true
	})
	switch {
	case len(g.problems) > 0:
		return errors.Join(g.problems...)
	case granted > 0 && g.running() > g.slots.size:
		return fmt.Errorf("%d were granted while %d of %d ran", granted, before, g.slots.size)
	case len(g.pending) > 0 && g.running() < g.slots.size:
		return fmt.Errorf("%d wait while %d of %d run", len(g.pending), g.running(), g.slots.size)
	case len(g.permits) > g.slots.size+g.slots.maxParked:
		return fmt.Errorf("%d permits are out", len(g.permits))
	}
	seen := make(map[*worker.SlotPermit]bool)
	for _, permit := range g.permits {
		if seen[permit] {
			return errors.New("a permit was issued twice")
		}
		seen[permit] = true
	}
	return nil
}

func (g *garage) close() {
	for _, p := range g.pending {
		p.cancel()
		<-p.done
		if p.permit != nil {
			g.permits = append(g.permits, p.permit)
		}
	}
	for _, unpark := range g.parked {
		unpark()
	}
	for range g.permits {
		g.slots.ReleaseSlot(nil)
	}
}

func (g *garage) judgeEmpty() error {
	for i := range g.slots.size {
		if g.slots.TryReserveSlot(reservation{}) == nil {
			return fmt.Errorf("of %d slots %d are left when none is in use", g.slots.size, i)
		}
	}
	if g.slots.TryReserveSlot(reservation{}) != nil {
		return fmt.Errorf("there is one more than %d slots", g.slots.size)
	}
	return nil
}

func newSlots(t *testing.T, size, maxParked int) *ParkingSlots {
	t.Helper()
	slots, err := NewParkingSlots(size, maxParked)
	require.NoError(t, err)
	return slots
}

func reserve(t *testing.T, slots *ParkingSlots) {
	t.Helper()
	permit, err := slots.ReserveSlot(t.Context(), reservation{})
	require.NoError(t, err)
	require.NotNil(t, permit)
}

// reservation is what a worker tells of one.
type reservation struct {
	worker.SlotReservationInfo
	queue string
}

func (r reservation) TaskQueue() string { return r.queue }

func sizesOf(tuner worker.WorkerTuner) []int {
	var sizes []int
	for _, supplier := range []worker.SlotSupplier{
		tuner.GetWorkflowTaskSlotSupplier(), tuner.GetActivityTaskSlotSupplier(), tuner.GetLocalActivitySlotSupplier(),
		tuner.GetNexusSlotSupplier(), tuner.GetSessionActivitySlotSupplier(),
	} {
		sizes = append(sizes, supplier.MaxSlots())
	}
	return sizes
}
