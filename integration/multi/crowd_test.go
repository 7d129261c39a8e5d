package multi

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Whatever they need, however important they are and whoever leaves: nobody is
// ever in a room with somebody else, and in the end all have come through.
func TestCrowdWithPrioritiesAndShortTempersIsOrderly(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const workers, turns = 6, 40
	scopes := []string{"a", "b", "c", "d"}
	rooms := map[string]*room{}
	for _, scope := range scopes {
		rooms[scope] = &room{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()

	var all errgroup.Group
	for n := range workers {
		guard := h.guard(h.client(), string(rune('A'+n)))
		dice := rand.New(rand.NewPCG(uint64(n), 4))
		all.Go(func() error {
			for range turns {
				// given any of the locks, in any order, at any priority
				mine := slices.Clone(scopes)
				dice.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				mine = mine[:1+dice.IntN(len(mine))]
				var requirements []lockguard.Requirement
				for _, scope := range mine {
					requirements = append(requirements, lockguard.Requirement{
						Scope: scope, Priority: priority.Level(dice.IntN(4)), Forceful: dice.IntN(2) == 0, CleanupTimeout: soon,
					})
				}
				switch dice.IntN(4) {
				case 0:
					requirements[0].AcquireTimeout = new(time.Duration(0))
				case 1:
					requirements[0].AcquireTimeout = new(time.Duration(1+dice.IntN(20)) * time.Millisecond)
				}
				leave, left := context.WithCancel(ctx)
				if dice.IntN(4) == 0 {
					time.AfterFunc(time.Duration(dice.IntN(10))*time.Millisecond, left)
				}
				out := sync.OnceFunc(func() {
					for _, scope := range mine {
						rooms[scope].leave()
					}
				})
				takes := time.Duration(dice.IntN(3000)) * time.Microsecond

				// when it works under them, and is told to go
				err := guard.DoAll(leave, requirements, func(ctx context.Context) error {
					hold, _ := lockguard.FromContext(ctx)
					for scope, token := range hold.Tokens() {
						rooms[scope].enter(token)
					}
					select {
					case <-ctx.Done():
					case <-time.After(takes):
					}
					if ctx.Err() == nil {
						out() // no hooks, most likely
					}
					return context.Cause(ctx)
				}, func(context.Context) error { // then it tidies up, still alone in the rooms
					<-time.After(takes / 2)
					out()
					return nil
				})
				left()
				if err == nil {
					continue
				}
				if ctx.Err() != nil || !expected(err) {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	for scope, room := range rooms {
		room.mu.Lock()
		require.False(t, room.crowd, "two were in room %s", scope)
		require.False(t, room.disord, "a token of %s was not greater than the one before", scope)
		require.Zero(t, room.inside)
		require.NotZero(t, room.visits)
		room.mu.Unlock()
	}
	h.nobodyThere()
}

// expected are the ends of a turn that nobody has to explain.
func expected(err error) bool {
	return recipes.IsNotAcquired(err) || errors.Is(err, context.Canceled) ||
		errors.As(err, new(*lockguard.PreemptedError)) || errors.As(err, new(*lockguard.ShutdownError))
}
