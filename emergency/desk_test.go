package emergency_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/override"
)

// freeze returns a freeze of everything for a time.
func freeze(id string, last time.Duration) override.Override {
	return override.Override{ID: id, Kind: override.Freeze, Until: time.Now().Add(last), By: "ana", Reason: "disk is full"}
}

// posted is an override as ZooKeeper has it.
func posted(o override.Override) emergency.Active {
	return emergency.Active{Override: o, PostedBy: "digest:ana", PostedAt: time.Now()}
}

// A board is one whose contents the test writes.
type board struct {
	mu  sync.Mutex
	see func([]emergency.Active, error)
}

func (b *board) Watch(ctx context.Context, see func([]emergency.Active, error)) error {
	b.mu.Lock()
	b.see = see
	b.mu.Unlock()
	<-ctx.Done()
	return nil
}

// say sends these overrides to the watchers.
func (b *board) say(err error, all ...emergency.Active) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.see(all, err)
}

// A logbook is what was logged, one record a line.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns those that have a text in them.
func (l *logbook) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// withDesk runs a test with a desk, in virtual time.
func withDesk(t *testing.T, f func(t *testing.T, desk *emergency.Desk, b *board, log *logbook)) {
	t.Helper()
	withDeskAt(t, nil, f)
}

// withDeskAt is withDesk by another clock.
func withDeskAt(
	t *testing.T, now func() time.Time, f func(t *testing.T, desk *emergency.Desk, b *board, log *logbook),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, log := &board{}, &logbook{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		desk, err := emergency.NewDesk(emergency.DeskConfig{Board: b, Now: now, Logger: logger})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { desk.Run(ctx) })
		f(t, desk, b, log)
		stop()
		running.Wait()
	})
}

func ids(desk *emergency.Desk) []string {
	set, _ := desk.InForce()
	all := []string{}
	for _, o := range set {
		all = append(all, o.ID)
	}
	return all
}

func isClosed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestOverridesOfTheFileAndOfZooKeeperAreInForceTogether(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, _ *logbook) {
		_, changed := desk.InForce()
		desk.SetFile([]override.Override{freeze("b", time.Hour)})
		require.True(t, isClosed(changed))
		require.Equal(t, []string{"b"}, ids(desk))

		_, changed = desk.InForce()
		b.say(nil, posted(freeze("a", time.Hour)))
		require.True(t, isClosed(changed))
		require.Equal(t, []string{"a", "b"}, ids(desk))

		all, _ := desk.Active()
		require.Equal(t, emergency.ZooKeeper, all[0].Source)
		require.Equal(t, "digest:ana", all[0].PostedBy)
		require.Equal(t, emergency.File, all[1].Source)

		b.say(nil)
		require.Equal(t, []string{"b"}, ids(desk), "it was taken back")
	})
}

func TestWhatZooKeeperSaysOfAnIDCounts(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, _ *logbook) {
		// given
		desk.SetFile([]override.Override{freeze("INC-1", 3*time.Hour)})
		other := freeze("INC-1", time.Hour)
		other.Reason = "said by hand"

		// when
		b.say(nil, posted(other))

		// then
		set, _ := desk.InForce()
		require.Len(t, set, 1)
		require.Equal(t, "said by hand", set[0].Reason)

		// and when it has ended, the file counts again, though ZooKeeper still has it
		time.Sleep(time.Hour)
		set, _ = desk.InForce()
		require.Len(t, set, 1)
		require.Equal(t, "disk is full", set[0].Reason)

		// nor does it matter when it is removed
		b.say(nil)
		require.Equal(t, []string{"INC-1"}, ids(desk))
	})
}

func TestAnOverrideEndsInItsInstant(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, log *logbook) {
		// given
		desk.SetFile([]override.Override{freeze("short", 90*time.Second), freeze("long", time.Hour)})
		b.say(nil, posted(freeze("other", 2*time.Minute)))
		set, changed := desk.InForce()
		require.Len(t, set, 3)

		// when
		time.Sleep(90*time.Second - time.Nanosecond)
		require.False(t, isClosed(changed))
		require.Equal(t, []string{"long", "other", "short"}, ids(desk))
		time.Sleep(time.Nanosecond)

		// then
		require.Equal(t, []string{"long", "other"}, ids(desk), "who asks before the clock rings sees it, too")
		require.True(t, isClosed(changed))
		_, changed = desk.InForce()
		time.Sleep(30 * time.Second)
		require.True(t, isClosed(changed), "waiters are notified by the clock alone")
		require.Equal(t, []string{"long"}, ids(desk))
		require.Len(t, log.lines("override is over"), 2)
		require.Len(t, log.lines(`override=short kind=freeze source=file why="its time is over"`), 1)
	})
}

// The first contact with ZooKeeper may show that its clock is another one, and then
// have nothing more to say.
func TestACorrectedClockEndsAndBeginsOverridesWithinASecond(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	withDeskAt(t, now, func(t *testing.T, desk *emergency.Desk, _ *board, _ *logbook) {
		desk.SetFile([]override.Override{freeze("INC-1", time.Hour)})
		for _, c := range []struct {
			ahead time.Duration
			want  []string
		}{{2 * time.Hour, []string{}}, {0, []string{"INC-1"}}} {
			_, changed := desk.InForce()
			time.Sleep(10 * time.Second)
			ahead.Store(int64(c.ahead))
			time.Sleep(time.Second)
			require.True(t, isClosed(changed))
			require.Equal(t, c.want, ids(desk))
		}
	})
}

func TestWhatWasKnownStaysInForceWhileZooKeeperCannotBeRead(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, log *logbook) {
		// given
		b.say(nil, posted(freeze("INC-1", time.Hour)))

		// when
		for range 3 {
			b.say(errors.New("any client may write it"))
		}

		// then
		require.Equal(t, []string{"INC-1"}, ids(desk))
		require.ErrorContains(t, desk.Status().Err, "any client may write it")
		require.Len(t, log.lines("level=ERROR"), 1, "said once")

		// and it ends all the same
		time.Sleep(time.Hour)
		require.Empty(t, ids(desk))

		// and when ZooKeeper can be read again
		b.say(nil, posted(freeze("INC-2", time.Hour)))
		require.Equal(t, []string{"INC-2"}, ids(desk))
		require.NoError(t, desk.Status().Err)
	})
}

func TestADeskThatHasSeenNothingThatItTrustsKnowsThat(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, _ *logbook) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, desk.Ready(ctx), context.DeadlineExceeded)
		require.False(t, desk.Status().Known)

		b.say(errors.New("any client may write it"))
		require.NoError(t, desk.Ready(t.Context()))
		require.Empty(t, ids(desk))
	})
}

func TestUnchangedOverridesCauseNoNotification(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, log *logbook) {
		one := freeze("INC-1", time.Hour)
		two := posted(freeze("INC-2", time.Hour))
		desk.SetFile([]override.Override{one})
		b.say(nil, two)
		_, changed := desk.InForce()
		before := len(log.lines(""))

		time.Sleep(time.Minute)
		desk.SetFile([]override.Override{one})
		b.say(nil, two)
		require.False(t, isClosed(changed))
		require.Len(t, log.lines(""), before)

		one.Reason = "another one"
		desk.SetFile([]override.Override{one})
		require.True(t, isClosed(changed))
		require.Len(t, log.lines("override changed"), 1)
		all, _ := desk.Active()
		require.Equal(t, time.Minute, all[0].Since.Sub(all[1].Since), "each is known since it was said like this")
	})
}

func TestOverridesOfZooKeeperBeyondTheLimitsAreLeftOut(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, b *board, log *logbook) {
		bypass := override.Override{
			ID: "INC-1", Kind: override.Bypass, Match: override.Match{Scope: "db/*"}, Until: time.Now().Add(time.Hour), By: "ana", Reason: "locks are broken",
		}
		for range 2 {
			b.say(nil, posted(bypass), posted(freeze("year", 365*24*time.Hour)), posted(freeze("day", 24*time.Hour)))
		}
		require.Equal(t, []string{"day"}, ids(desk))
		require.Len(t, log.lines("left out"), 2, "each is said once")

		desk.SetLimits(override.Limits{AllowBypass: true})
		require.Equal(t, []string{"INC-1", "day"}, ids(desk))
	})
}

func TestPausedJobsAreThoseOfTheMoment(t *testing.T) {
	withDesk(t, func(t *testing.T, desk *emergency.Desk, _ *board, _ *logbook) {
		o := freeze("INC-1", time.Minute)
		o.Kind, o.Match = override.Pause, override.Match{Labels: map[string]string{"team": "orders"}}
		desk.SetFile([]override.Override{o})
		by, changed := desk.Paused("nightly", map[string]string{"team": "orders"})
		require.Equal(t, "INC-1", by.ID)
		other, _ := desk.Paused("nightly", nil)
		require.Nil(t, other)

		time.Sleep(time.Minute)
		require.True(t, isClosed(changed))
		by, _ = desk.Paused("nightly", map[string]string{"team": "orders"})
		require.Nil(t, by)
	})
}

func TestAskingCostsNothingWhileNothingIsInForce(t *testing.T) {
	desk, err := emergency.NewDesk(emergency.DeskConfig{Now: func() time.Time { panic("the time is not needed") }})
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = desk.InForce()
		_, _ = desk.Paused("nightly", nil)
	}))
}

// The servers' time costs a write, which is not needed when nothing can end.
func TestTheTimeIsAskedForOnlyWhenAnOverrideCanEnd(t *testing.T) {
	var asked atomic.Int32
	now := func() time.Time { asked.Add(1); return time.Now() }
	withDeskAt(t, now, func(t *testing.T, desk *emergency.Desk, b *board, _ *logbook) {
		// given a desk at which nothing is in force
		b.say(nil)
		desk.SetFile(nil)
		require.Empty(t, ids(desk))
		require.Zero(t, asked.Load())

		// when something is, then it ends by that time, and the removal is reported
		b.say(nil, posted(freeze("INC-1", time.Hour)))
		require.Equal(t, []string{"INC-1"}, ids(desk))
		require.Positive(t, asked.Load())
		<-time.After(time.Hour)
		require.Empty(t, ids(desk))
	})
}
