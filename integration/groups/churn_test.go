package groups

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Participants come, go, are cut off and lose their sessions by chance, while
// the referee counts who is inside of each lock and looks at the tokens.
func TestNoLockHasTwoHoldersWhateverHappens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		strategy string
		holders  int
	}{{"balanced", "balanced", 1}, {"mod, which moves most", "mod", 1}, {"two holders", "balanced", 2}} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(c.name, " ", seed), func(t *testing.T) {
				virtually(t, func(t *testing.T, f *fixture) {
					f.referee.holders = c.holders
					s := spec(12, debounce(20*time.Millisecond), func(s *group.Spec) { s.Strategy, s.Holders = c.strategy, c.holders })
					f.churn(s, rand.New(rand.NewPCG(seed, 1)))
				})
			})
		}
	}
}

// A seat is a participant that may have to leave.
type seat struct {
	*player
	left bool // it was told to leave, and has not joined again
}

func (f *fixture) churn(s group.Spec, dice *rand.Rand) {
	// given participants with callbacks that take their time
	const crowd, session, steps = 4, 1200 * time.Millisecond, 60
	var seats []*seat
	var players []*player
	for i := range crowd {
		name := fmt.Sprint("node", i)
		p := f.player(name, harness.NewClient(f, lock.Config{Dialer: f.zk.Dialer(name), Root: f.Root, SessionTimeout: session}))
		wait := time.Duration(i) * 3 * time.Millisecond
		p.locked = func(ctx context.Context, _ group.LockGrant) {
			if wait > 0 {
				<-ctx.Done()
			}
		}
		p.released = func(context.Context, string) { pause(wait) }
		p.join(s)
		seats, players = append(seats, &seat{player: p}), append(players, p)
	}

	// when everything happens to them
	var pending sync.WaitGroup
	for range steps {
		victim := seats[dice.IntN(crowd)]
		f.History.Add("test", "next: %s", victim.name)
		switch dice.IntN(4) {
		case 0:
			id, _ := victim.c.Session()
			f.zk.Disconnect(id)
		case 1: // long enough for its session, now and then
			if !f.connected(victim.name) {
				continue
			}
			long := time.Duration(dice.IntN(int(2 * session)))
			f.zk.Partition(victim.name)
			pending.Go(func() { pause(long); f.zk.Heal(victim.name) })
		default:
			victim.again(s)
		}
		pause(time.Duration(dice.IntN(60)) * time.Millisecond)
	}
	pending.Wait()

	// then, when it has calmed down, all locks are held, and the referee has seen no foul
	for _, seat := range seats {
		if seat.left {
			seat.leave()
			seat.join(s)
		}
	}
	if s.Strategy == "balanced" {
		f.share(len(s.Locks)/crowd*s.Holders, players...)
	}
	harness.Eventually(f, func() bool { return f.referee.count() == len(s.Locks)*s.Holders }, "not all locks are held")
}

func (f *fixture) connected(name string) bool {
	return slices.ContainsFunc(f.zk.Sessions(), func(s zktest.Session) bool { return s.Name == name && s.Connected })
}

// again leaves and joins, as far as that is done soon.
func (x *seat) again(s group.Spec) {
	x.left = true
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if x.m.Leave(ctx) != nil {
		return
	}
	m, err := x.group(s).Join(ctx, x.name, x.player)
	if err != nil {
		require.ErrorIs(x.f, err, context.DeadlineExceeded)
		return
	}
	x.m, x.left = m, false
}

func pause(d time.Duration) { <-time.After(d) }
