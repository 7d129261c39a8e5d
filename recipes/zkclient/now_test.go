package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeOfTheServersGoesOnFromTheLastStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterTime()
		now, stale := c.read()
		require.True(t, stale, "nothing is known yet")
		require.Equal(t, time.Now().UTC(), now, "the local clock")

		// the servers' clock is an hour ahead, the answer took 10ms
		sent := c.clock.now()
		stamp := time.Now().Add(time.Hour + 4*time.Millisecond).UnixMilli()
		time.Sleep(10 * time.Millisecond)
		c.learn(stamp, sent, c.clock.now())
		now, stale = c.read()
		require.False(t, stale)
		require.WithinDuration(t, time.Now().Add(time.Hour), now, 11*time.Millisecond)

		time.Sleep(timeStale + time.Second)
		later, stale := c.read()
		require.True(t, stale)
		require.Equal(t, timeStale+time.Second, later.Sub(now))
	})
}

func TestTimeOfTheServersGetsMorePreciseAndYieldsToAContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterTime()
		tell := func(ahead, took time.Duration) {
			sent := c.clock.now()
			time.Sleep(took / 2)
			stamp := time.Now().Add(ahead).UnixMilli()
			time.Sleep(took - took/2)
			c.learn(stamp, sent, c.clock.now())
		}
		off := func() time.Duration {
			now, _ := c.read()
			return time.Until(now)
		}
		tell(time.Minute, 2*time.Millisecond)
		require.InDelta(t, time.Minute, off(), float64(2*time.Millisecond))
		tell(time.Minute, 800*time.Millisecond)
		require.InDelta(t, time.Minute, off(), float64(4*time.Millisecond), "a vague stamp does not spoil a good one")
		tell(-time.Minute, 2*time.Millisecond)
		require.InDelta(t, -time.Minute, off(), float64(2*time.Millisecond), "another leader, or its clock was set")
	})
}

func TestServersAreNotAskedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterTime()
		require.True(t, c.ask())
		require.False(t, c.ask(), "one asks already")
		c.hasAsked(ErrAmbiguous)
		require.False(t, c.ask())
		time.Sleep(time.Second)
		require.True(t, c.ask())
		c.hasAsked(ErrSessionOver)
		time.Sleep(time.Second)
		require.True(t, c.ask())
		c.hasAsked(nil)
		time.Sleep(timeStale - time.Second)
		require.False(t, c.ask())
		time.Sleep(time.Second)
		require.True(t, c.ask())
	})
}

func TestServersAreAskedAgainAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterTime()
		c.learn(time.Now().UnixMilli(), c.clock.now(), c.clock.now())
		c.hasAsked(nil)
		_, known, stale := c.bounds()
		require.True(t, known)
		require.False(t, stale)
		require.False(t, c.ask())

		c.reconnected()
		_, known, stale = c.bounds()
		require.True(t, known, "what was known counts until there is an answer")
		require.True(t, stale)
		require.True(t, c.ask())
		c.learn(time.Now().Add(time.Hour).UnixMilli(), c.clock.now(), c.clock.now())
		now, _, stale := c.bounds()
		require.False(t, stale)
		require.Equal(t, -time.Hour, now.Ahead(time.Now()).Round(time.Second))
	})
}
