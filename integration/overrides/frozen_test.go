package overrides

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func freezeBelow(level priority.Level, id string) override.Override {
	return incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.PriorityBelow = id, new(level) })
}

// frozen is what anybody sees.
func (w *world) frozen(p *program) []recipes.FrozenRequest {
	w.t.Helper()
	all, _, err := p.client.Frozen(w.t.Context())
	require.NoError(w.t, err)
	return all
}

func TestFrozenRequestIsShownToEverybodyUntilItThaws(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given one that waits
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.do(lockguard.Requirement{Priority: 9}, lasting(10*time.Minute))
		waits := batch.do(lockguard.Requirement{Job: "nightly", Message: "tenant 5", Priority: 2}, lasting(0))
		require.Empty(t, w.frozen(holder))

		// when it is frozen
		w.pass(time.Minute)
		w.board.put(freezeBelow(5, "INC-7"))
		w.pass(time.Minute)

		// then another process sees who is kept out, by what, since and until when
		all := w.frozen(holder)
		require.Len(t, all, 1)
		r := all[0]
		require.Equal(t, []string{scope, "batch", "nightly", "tenant 5"}, []string{r.Scope, r.Owner, r.Job, r.Message})
		require.Equal(t, priority.Level(2), r.Priority)
		require.Equal(t, mark, r.Override)
		require.WithinDuration(t, w.start.Add(time.Minute), r.Since, time.Second)
		require.WithinDuration(t, w.start.Add(time.Minute+hour), r.Until, time.Second)

		// also when another freeze takes over
		w.board.put(freezeBelow(5, "INC-8"))
		w.pass(time.Second)
		all = w.frozen(holder)
		require.Len(t, all, 1)
		require.Equal(t, "INC-8", all[0].Override.ID)

		// and nothing is left when that ends
		w.board.put()
		w.pass(0)
		require.Empty(t, w.frozen(holder))
		require.NoError(t, held.returned())
		require.NoError(t, waits.returned())
	})
}

func TestFrozenRequestThatCannotWaitAnyMoreIsNotShown(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.program("a")
		w.board.put(freezeBelow(5, "INC-7"))
		gone := a.do(lockguard.Requirement{AcquireTimeout: new(time.Minute)}, lasting(0))
		w.pass(time.Second)
		require.Len(t, w.frozen(a), 1)
		require.Error(t, gone.returned())
		w.pass(time.Second)
		require.Empty(t, w.frozen(a))
	})
}

func TestFrozenRequestIsShownAgainAfterItsSession(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a, other := w.program("a"), w.program("b")
		w.board.put(freezeBelow(5, "INC-7"))
		waits := a.do(lockguard.Requirement{}, lasting(0))
		w.pass(time.Minute)
		since := w.frozen(other)[0].Since
		for _, s := range w.zk.Sessions() {
			if s.Name == "a" {
				require.True(t, w.zk.Expire(s.ID))
			}
		}
		w.pass(time.Minute)
		all := w.frozen(other)
		require.Len(t, all, 1)
		require.WithinDuration(t, since, all[0].Since, 2*time.Second, "it is frozen for as long as before")
		w.board.put()
		require.NoError(t, waits.returned())
	})
}

func TestFrozenNodeThatCannotBeReadIsNamedAndHidesNoOther(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.program("a")
		w.board.put(freezeBelow(5, "INC-7"))
		waits := a.do(lockguard.Requirement{}, lasting(0))
		w.pass(time.Second)
		for name, data := range map[string]string{"empty": "", "junk": "\x00{", "newer": `{"format":99}`} {
			require.NoError(t, w.zk.Create("/lockkeeper/emergency/frozen/"+name, []byte(data)))
		}
		all, left, err := a.client.Frozen(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Len(t, left, 3)
		for i, name := range []string{"empty", "junk", "newer"} {
			require.Equal(t, "/lockkeeper/emergency/frozen/"+name, left[i].Path)
		}
		w.board.put()
		require.NoError(t, waits.returned())
	})
}
