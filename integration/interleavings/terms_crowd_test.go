package interleavings

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 36: readers and writers in a crowd, all of whom are sent up and down at random
// while holders come and go, connections break, replies are lost and sessions
// end: never two hold that may not, tokens grow, and all are served.
func TestCrowdThatIsSentUpAndDownIsServed(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			scenario(t, func(w *world) { newMovers(w, seed, false).play() })
		})
		t.Run(fmt.Sprint("by force, seed ", seed), func(t *testing.T) {
			scenario(t, func(w *world) { newMovers(w, seed, true).play() })
		})
	}
}

// movers is a crowd whose requests change while they wait.
type movers struct {
	w      *world
	random *rand.Rand
	force  bool // some of them evict
	crowd  []*mover
	moves  int // changes that were told
}

type mover struct {
	*user
	terms terms
	over  bool
}

func newMovers(w *world, seed uint64, force bool) *movers {
	return &movers{w: w, random: rand.New(rand.NewPCG(seed, 7)), force: force}
}

const moversClients, moversLevels, moversSteps = 5, 6, 120

func (m *movers) play() {
	for i := range moversClients {
		m.w.client(fmt.Sprint("C", i))
	}
	for step := range moversSteps {
		switch n := m.random.IntN(20); {
		case n < 4:
			m.asks(fmt.Sprint("U", step))
		case n < 12:
			m.changes()
		case n < 16:
			m.releases()
		case n < 17:
			id, _ := m.w.client(m.anyClient()).Session()
			m.w.Disconnect(id) // unless it is just coming back
		case n < 18 && step%4 == 0:
			m.w.expire(m.anyClient())
		case n < 19:
			lose := m.w.On(T12(users).Times(1))
			rule := []func() *zktest.Rule{lose.DropReply, lose.DropRequest}[m.random.IntN(2)]()
			m.changes()
			m.w.Pass(time.Millisecond)
			rule.Remove()
		default:
			m.w.Pass(time.Duration(m.random.IntN(30)) * time.Millisecond)
		}
		if m.random.IntN(3) == 0 {
			m.w.Pass(3 * time.Millisecond)
		}
		for _, c := range m.w.order {
			m.w.eventually(c.name+" is connected", func() bool { id, _ := c.Session(); return id != 0 })
		}
	}
	// all that are left are served in turn
	m.w.eventually("all are served", func() bool {
		m.releases()
		return !slices.ContainsFunc(m.crowd, func(u *mover) bool { return !u.over })
	})
	for _, u := range m.crowd {
		m.moves += times[recipes.Revised](u.user)
	}
	require.Positive(m.w, m.moves)
	m.w.Logf("%d requests, %d changes", len(m.crowd), m.moves)
}

func (m *movers) anyClient() string { return fmt.Sprint("C", m.random.IntN(moversClients)) }

func (m *movers) level() priority.Level { return priority.Level(m.random.IntN(moversLevels)) }

func (m *movers) asks(owner string) {
	if waiting := len(slices.DeleteFunc(slices.Clone(m.crowd), func(u *mover) bool { return u.over })); waiting > 12 {
		return
	}
	u := new(mover)
	change := []func(*recipes.Request){at(m.level()), cleanup(time.Hour)}
	if m.random.IntN(2) == 0 {
		change = append(change, sharing)
	}
	u.user = m.w.client(m.anyClient()).ask(users, owner, append(change, u.terms.under)...)
	m.crowd = append(m.crowd, u)
}

// changes sends some of them elsewhere, or makes them ask for something else.
func (m *movers) changes() {
	for _, u := range m.crowd {
		if u.over || m.random.IntN(2) == 0 {
			continue
		}
		switch n := m.random.IntN(6); {
		case n < 4:
			u.terms.change(to(m.level()))
		case n < 5:
			u.terms.change(func(t *recipes.Terms) { t.LeaseTimeout = time.Duration(1+m.random.IntN(9)) * time.Hour })
		case m.force:
			u.terms.change(byForce(incident))
		default:
			u.terms.change()
		}
	}
}

// releases ends about half of the holds that there are.
func (m *movers) releases() {
	for _, u := range m.crowd {
		select {
		case <-u.Done():
		default:
			continue
		}
		if u.over || m.random.IntN(2) == 0 {
			continue
		}
		u.over = true
		if _, err := u.Wait(); err != nil { // granted and gone before it knew
			var lost *recipes.LostError
			require.True(m.w, m.force && errors.As(err, &lost), "%s: %v", u.Owner, err)
			continue
		}
		if times[recipes.Lost](u.user) > 0 {
			continue
		}
		if err := u.releases()(); err != nil {
			var lost *recipes.LostError
			require.ErrorAs(m.w, err, &lost, u.Owner)
		}
	}
}
