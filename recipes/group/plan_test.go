package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestAssignmentIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	a := newAssignment()
	a.generation, a.spec, a.live, a.more, a.fault, a.moved, a.total = 7, 2, []string{"n1", "n2"}, true, "no", 3, 9
	a.cleanup = 1500 * time.Microsecond
	a.locks["held"] = &groupLock{holders: []groupEntry{{guid: "g1", name: "n1", token: 5}}, plan: []string{"n1"}}
	a.locks["moving"] = &groupLock{holders: []groupEntry{{guid: "g1", name: "n1", token: 5, revoking: true}}, plan: []string{"n2"}}
	a.locks["free"] = &groupLock{holders: nil, plan: []string{}}
	a.locks["kept for one that is away"] = &groupLock{plan: []string{"n3"}}
	a.locks["shared"] = &groupLock{holders: []groupEntry{{guid: "g2", name: "n2", token: 8}, {guid: "g1", name: "n1", token: 6}}, plan: []string{"n1", "n2"}}
	a.locks["fresh"] = &groupLock{holders: []groupEntry{{guid: "g2", name: "n2"}}, plan: []string{"n2"}}
	a.locks["to be dropped"] = &groupLock{holders: []groupEntry{{guid: "g2", name: "n2", token: 3, revoking: true}}, plan: []string{}}

	b, err := decodeAssignment(a.encode(), &zkclient.Stat{Mzxid: 99})
	require.NoError(t, err)

	// what was granted by the write has its zxid as token, in later writes, too
	a.freeze(&zkclient.Stat{Mzxid: 99})
	require.EqualValues(t, 99, b.locks["fresh"].holders[0].token)
	c, err := decodeAssignment(b.encode(), &zkclient.Stat{Mzxid: 100})
	require.NoError(t, err)
	for lock, l := range a.locks {
		if l.holders == nil {
			l.holders = b.locks[lock].holders
		}
	}
	a.locks["kept for one that is away"].holders = nil
	require.Equal(t, a, b)
	require.Equal(t, b, c)
}

// A round is played with participants that release, die and come back by
// chance: no lock ever has more holders than declared who have not released.
func TestAdvanceNeverGrantsBesideAHolder(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 7))
		spec := Spec{Name: "g", Locks: NumberedLocks("l", 6), Holders: 1 + int(seed%2)}
		a := newAssignment()
		there := peers{}
		zxid := int64(0)
		inside := map[string]map[string]bool{} // lock to guids
		arrive := func(name string) {
			p := &peer{groupChild: groupChild{name: name, guid: fmt.Sprint(name, "#", zxid, "#", dice.Uint32()), seq: int32(zxid)}, read: true}
			for _, q := range there {
				if q.name == name {
					return
				}
			}
			there[p.guid] = p
		}
		for range 60 {
			switch dice.IntN(4) {
			case 0:
				arrive(fmt.Sprint("n", dice.IntN(4)))
			case 1: // one dies
				for guid := range there {
					delete(there, guid)
					for _, who := range inside {
						delete(who, guid)
					}
					break
				}
			}
			live := there.standing(nil)
			names := make([]string, 0, len(live))
			for name := range live {
				names = append(names, name)
			}
			slices.Sort(names)
			a.reap(there)
			next, err := assignment.Run(assignment.Mod{}, spec.Locks, names, a.planned(), spec.hints())
			require.NoError(t, err)
			a.adopt(&spec, next)
			a.advance(&spec, spec.declared(), live)
			zxid++
			a.freeze(&zkclient.Stat{Mzxid: zxid})

			// each participant obeys, sooner or later
			for name, l := range a.locks {
				for _, e := range l.holders {
					p := there[e.guid]
					if p == nil || slices.Contains(p.record.Released[e.token], name) {
						continue
					}
					switch {
					case !e.revoking:
						if inside[name] == nil {
							inside[name] = map[string]bool{}
						}
						inside[name][e.guid] = true
					case dice.IntN(2) == 0:
						delete(inside[name], e.guid)
						if p.record.Released == nil {
							p.record.Released = map[lock.Token][]string{}
						}
						p.record.Released[e.token] = append(p.record.Released[e.token], name)
					}
				}
				if len(inside[name]) > spec.Holders {
					t.Fatalf("seed %d, %s: %d holders instead of %d", seed, name, len(inside[name]), spec.Holders)
				}
			}
		}
	}
}

func TestWhatIsBeingReleasedCountsForTheLimit(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "g", Locks: []string{"x", "y"}, Limit: 1, Holders: 1}
	live := map[string]*peer{"a": {groupChild: groupChild{name: "a", guid: "ga"}}, "b": {groupChild: groupChild{name: "b", guid: "gb"}}}
	a := newAssignment()
	a.locks["x"] = &groupLock{holders: []groupEntry{{guid: "ga", name: "a", token: 1}}, plan: []string{"b"}}
	a.locks["y"] = &groupLock{plan: []string{"a"}}

	// given one that releases a lock and is to get another one
	changed, complete := a.advance(&spec, spec.declared(), live)
	require.True(t, changed)
	require.False(t, complete)
	require.Empty(t, a.locks["y"].holders)

	// then it gets that when it has
	a.locks["x"].holders = nil
	changed, complete = a.advance(&spec, spec.declared(), live)
	require.True(t, changed)
	require.True(t, complete)
	require.Equal(t, "ga", a.locks["y"].holders[0].guid)
	require.Equal(t, "gb", a.locks["x"].holders[0].guid)
}

// Whatever was planned before and whichever participants come and go: no
// participant is given a free lock beyond the limit.
func TestFreeLocksAreNeverGivenBeyondTheLimit(t *testing.T) {
	t.Parallel()
	pool := []string{"a", "b", "c", "d", "e"}
	seeds := uint64(5000)
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 1))
		some := func() []string {
			return slices.DeleteFunc(slices.Clone(pool), func(string) bool { return dice.IntN(2) == 0 })
		}
		spec := Spec{Name: "g", Locks: NumberedLocks("g", 2+dice.IntN(8)), Limit: 1 + dice.IntN(4)}
		spec.complete()
		strategy, err := assignment.Named(assignment.Names()[dice.IntN(len(assignment.Names()))])
		require.NoError(t, err)
		before, err := assignment.Run(strategy, spec.Locks, some(), nil, spec.hints())
		require.NoError(t, err)
		a := newAssignment()
		a.adopt(&spec, before)
		names, live := some(), map[string]*peer{}
		for _, name := range names {
			live[name] = &peer{}
		}
		full, err := assignment.Run(strategy, spec.Locks, names, a.planned(), spec.hints())
		require.NoError(t, err)

		filled := a.fill(a.orphans(&spec, live), live, full, &spec)
		for name, n := range filled.Counts() {
			require.False(t, live[name] != nil && n > spec.Limit, "seed %d: %s gets %d of %d: %v", seed, name, n, spec.Limit, filled)
		}
	}
}

func TestPlanIsMadeWhenParticipantsHaveBeenTheSameForTheDebounce(t *testing.T) {
	t.Parallel()
	const debounce = 100 * time.Millisecond
	start := time.Now()
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	a, ab := []string{"a"}, []string{"a", "b"}

	var p patience
	verdict := func(at int, live, planned []string, orphans bool) (planKind, time.Duration) {
		p.observe(ms(at), live, planned, orphans)
		return p.verdict(ms(at), debounce, false)
	}

	// nothing to do
	kind, wait := verdict(0, a, a, false)
	require.Equal(t, planNothing, kind)
	require.Zero(t, wait)

	// another one: when it has stayed for the debounce
	kind, wait = verdict(200, ab, a, false)
	require.Equal(t, planNothing, kind)
	require.Equal(t, debounce, wait)
	kind, wait = verdict(250, ab, a, false)
	require.Equal(t, planNothing, kind)
	require.Equal(t, debounce/2, wait)
	kind, _ = verdict(300, ab, a, false)
	require.Equal(t, planAll, kind)

	// one that comes and goes: nothing, since all is as planned in between
	p = patience{}
	for at := 0; at < 5000; at += 80 {
		live := a
		if at/80%2 == 1 {
			live = ab
		}
		kind, _ = verdict(at, live, a, false)
		require.Equal(t, planNothing, kind)
	}

	// with one that stays beside it: at the limit
	p = patience{}
	planned := -1
	for at := 0; planned < 0; at += 50 {
		live := []string{"a", "c"}
		if at/50%2 == 1 {
			live = []string{"a", "b", "c"}
		}
		if kind, _ = verdict(at, live, a, false); kind == planAll {
			planned = at
		}
	}
	require.Equal(t, 1000, planned)

	// one that goes right after a plan, before the controller has looked: not
	// before the debounce
	p = patience{}
	kind, _ = verdict(0, ab, nil, true)
	require.Equal(t, planNothing, kind)
	kind, _ = verdict(100, ab, nil, true)
	require.Equal(t, planAll, kind)
	p.planned()
	kind, wait = verdict(105, a, ab, true)
	require.Equal(t, planNothing, kind)
	require.Equal(t, debounce, wait)

	// free locks: after one debounce, once
	p = patience{}
	var orphans []int
	for at := 0; at < 900; at += 50 {
		live := a
		if at/50%2 == 1 {
			live = ab
		}
		if kind, _ = verdict(at, live, []string{"a", "z"}, true); kind == planOrphans {
			orphans = append(orphans, at)
			p.tried = live
		}
	}
	require.Equal(t, 100, orphans[0])
}

func TestForeignNodesAreNoParticipants(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{"", "x", "a-b-c", "node-" + znode.NewGUID(), "node-short-0000000001"} {
		_, ok := parseMember(foreign)
		require.False(t, ok, foreign)
	}
}
