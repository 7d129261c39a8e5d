package groups

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			f.referee.holders = c.holders
			seed := rand.Uint64()
			if given, err := strconv.ParseUint(os.Getenv("GROUPS_SEED"), 10, 64); err == nil {
				seed = given
			}
			t.Logf("GROUPS_SEED=%d", seed)
			dice := rand.New(rand.NewPCG(seed, 1))
			s := spec(12, debounce(20*time.Millisecond), func(s *recipes.GroupSpec) { s.Strategy, s.Holders = c.strategy, c.holders })

			// given participants on lines that can fail, with callbacks that take their time
			const crowd, session, steps = 4, 1200 * time.Millisecond, 30
			type seat struct {
				*player
				proxy *netfault.Proxy
				left  bool // it was told to leave, and has not joined again
			}
			var seats []*seat
			for i := range crowd {
				proxy := newNetwork(f)
				p := f.player(fmt.Sprint("node", i), f.client(harness.SessionTimeout(session), harness.Servers(proxy.Addr())))
				wait := time.Duration(i) * 3 * time.Millisecond
				p.locked = func(ctx context.Context, _ recipes.LockGrant) {
					if wait > 0 {
						<-ctx.Done()
					}
				}
				p.released = func(context.Context, string) { pause(wait) }
				p.join(s)
				seats = append(seats, &seat{player: p, proxy: proxy})
			}

			// when everything happens to them
			var pending sync.WaitGroup
			for range steps {
				victim := seats[dice.IntN(crowd)]
				f.History.Add("test", "next: %s", victim.name)
				switch dice.IntN(4) {
				case 0:
					require.NoError(t, victim.proxy.Cut())
					pause(time.Duration(dice.IntN(50)) * time.Millisecond)
					require.NoError(t, victim.proxy.Pass())
				case 1: // long enough for its session, now and then
					proxy, long := victim.proxy, time.Duration(dice.IntN(int(2*session)))
					if err := proxy.Stall(); err == nil {
						pending.Go(func() {
							pause(long)
							if err := proxy.Pass(); err != nil {
								t.Error(err)
							}
						})
					}
				default:
					m, p := victim.m, victim.player
					ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
					victim.left = true
					if err := m.Leave(ctx); err == nil {
						again, err := p.group(s).Join(ctx, p.name, p)
						switch {
						case err == nil:
							p.m, victim.left = again, false
						case !errors.Is(err, context.DeadlineExceeded):
							t.Error(err)
						}
					}
					cancel()
				}
				pause(time.Duration(dice.IntN(60)) * time.Millisecond)
			}
			pending.Wait()

			// then, when it has calmed down, all locks are held, and the referee has seen no foul
			for _, seat := range seats {
				require.NoError(t, seat.proxy.Pass())
				if seat.left {
					seat.leave()
					seat.join(s)
				}
			}
			if c.strategy == "balanced" {
				f.share(3*c.holders, seats[0].player, seats[1].player, seats[2].player, seats[3].player)
			}
			harness.Eventually(t, func() bool { return f.referee.count() == 12*c.holders }, "not all locks are held")
			t.Logf("%d locks moved as planned", f.state().MovedTotal)
		})
	}
}

func pause(d time.Duration) { <-time.After(d) }
