package overrides

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func freezeBelow(level priority.Level, id string) override.Override {
	return incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.PriorityBelow = id, new(level) })
}

// frozen is what every client sees.
func (w *world) frozen(p *program) []lock.FrozenRequest {
	w.Helper()
	all, _, err := p.Client.Frozen(w.Context())
	require.NoError(w, err)
	return all
}

func TestFrozenRequestIsShownToEverybodyUntilItThaws(t *testing.T) {
	story(t, func(w *world) {
		// given one that waits
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9}}, lasting(10*time.Minute))
		waits := batch.Do(lockguard.Requirement{Job: "nightly", Message: "tenant 5", Terms: priority.Terms{Priority: 2}}, lasting(0))
		require.Empty(w, w.frozen(holder))

		// when it is frozen
		w.Pass(time.Minute)
		w.board.put(freezeBelow(5, "INC-7"))
		w.Pass(time.Minute)

		// then another process sees who is kept out, by what, since and until when
		all := w.frozen(holder)
		require.Len(w, all, 1)
		r := all[0]
		require.Equal(w, []string{scope, "batch", "nightly", "tenant 5"}, []string{r.Scope, r.Owner, r.Job, r.Message})
		require.Equal(w, priority.Level(2), r.Priority)
		require.Equal(w, mark, r.Override)
		require.WithinDuration(w, w.At(time.Minute), r.Since, time.Second)
		require.WithinDuration(w, w.At(time.Minute+hour), r.Until, time.Second)

		// also when another freeze takes over
		w.board.put(freezeBelow(5, "INC-8"))
		w.Pass(time.Second)
		all = w.frozen(holder)
		require.Len(w, all, 1)
		require.Equal(w, "INC-8", all[0].Override.ID)

		// and nothing is left when that ends
		w.board.put()
		w.Pass(0)
		require.Empty(w, w.frozen(holder))
		require.NoError(w, held.Returned())
		require.NoError(w, waits.Returned())
	})
}

func TestFrozenRequestThatCannotWaitAnyMoreIsNotShown(t *testing.T) {
	story(t, func(w *world) {
		a := w.program("a")
		w.board.put(freezeBelow(5, "INC-7"))
		gone := a.Do(lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: new(time.Minute)}}, lasting(0))
		w.Pass(time.Second)
		require.Len(w, w.frozen(a), 1)
		require.Error(w, gone.Returned())
		w.Pass(time.Second)
		require.Empty(w, w.frozen(a))
	})
}

func TestFrozenRequestIsShownAgainAfterItsSession(t *testing.T) {
	story(t, func(w *world) {
		a, other := w.program("a"), w.program("b")
		w.board.put(freezeBelow(5, "INC-7"))
		waits := a.Do(lockguard.Requirement{}, lasting(0))
		w.Pass(time.Minute)
		since := w.frozen(other)[0].Since
		for _, s := range w.Sessions() {
			if s.Name == "a" {
				require.True(w, w.Expire(s.ID))
			}
		}
		w.Pass(time.Minute)
		all := w.frozen(other)
		require.Len(w, all, 1)
		require.WithinDuration(w, since, all[0].Since, 2*time.Second, "it is frozen for as long as before")
		w.board.put()
		require.NoError(w, waits.Returned())
	})
}

func TestFrozenNodeThatCannotBeReadIsNamedAndHidesNoOther(t *testing.T) {
	story(t, func(w *world) {
		a := w.program("a")
		w.board.put(freezeBelow(5, "INC-7"))
		waits := a.Do(lockguard.Requirement{}, lasting(0))
		w.Pass(time.Second)
		for name, data := range map[string]string{"empty": "", "junk": "\x00{", "newer": `{"format":99}`} {
			require.NoError(w, w.Create("/lockkeeper/emergency/frozen/"+name, []byte(data)))
		}
		all, left, err := a.Client.Frozen(w.Context())
		require.NoError(w, err)
		require.Len(w, all, 1)
		require.Len(w, left, 3)
		for i, name := range []string{"empty", "junk", "newer"} {
			require.Equal(w, "/lockkeeper/emergency/frozen/"+name, left[i].Path)
		}
		w.board.put()
		require.NoError(w, waits.Returned())
	})
}
