package nemesis_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// A story plays one kind of fault, and shows what it does to those who live with it.
type story struct {
	kind nemesis.Kind
	tell func(*town, *testing.T, nemesis.Kind)
}

// networkStories concern one client each, and can be told side by side.
func networkStories() []story {
	return []story{
		{nemesis.LinkCut, (*town).linkCut},
		{nemesis.LinkReset, (*town).linkReset},
		{nemesis.LinkRefuse, (*town).linkRefuse},
		{nemesis.LinkHalfOpen, (*town).linkSilent},
		{nemesis.LinkBlackhole, (*town).linkSilent},
		{nemesis.LinkDeaf, (*town).linkSilent},
		{nemesis.LinkMute, (*town).linkMute},
		{nemesis.LinkStall, (*town).linkMute},
		{nemesis.LinkSlow, (*town).linkSlow},
		{nemesis.LeaderCutOff, (*town).leaderCutOff},
		{nemesis.ReplyDrop, (*town).replyDrop},
		{nemesis.RequestDrop, (*town).requestDrop},
		{nemesis.SessionExpire, (*town).sessionExpire},
		{nemesis.ClientKill, (*town).clientKill},
		{nemesis.ClientPause, (*town).clientPause},
		{nemesis.ClientClock, (*town).clientClock},
	}
}

// serverStories concern all clients: one after the other.
func serverStories() []story {
	return []story{
		{nemesis.SessionsExpire, (*town).sessionsExpire},
		{nemesis.PeersSlow, (*town).peersSlow},
		{nemesis.ServerClock, (*town).serverClock},
		{nemesis.ServerKill, (*town).serverKill},
		{nemesis.LeaderKill, (*town).leaderGone},
		{nemesis.MajorityKill, (*town).noQuorum},
		{nemesis.AllRestart, (*town).allRestart},
		{nemesis.ServerPause, (*town).serverPause},
		{nemesis.LeaderPause, (*town).leaderGone},
		{nemesis.LeaderPartition, (*town).leaderGone},
		{nemesis.LeaderMute, (*town).leaderGone},
		{nemesis.LeaderTrap, (*town).leaderTrap},
		{nemesis.FollowerPartition, (*town).followerPartition},
		{nemesis.FollowerKillAcked, (*town).followerAcked},
		{nemesis.FollowerPauseAcked, (*town).followerAcked},
		{nemesis.FollowerPartitionAcked, (*town).followerAcked},
		{nemesis.DiskFull, (*town).diskFull},
	}
}

func TestEveryKindHasAStory(t *testing.T) {
	var told []nemesis.Kind
	for _, s := range slices.Concat(networkStories(), serverStories()) {
		told = append(told, s.kind)
	}
	require.ElementsMatch(t, nemesis.All(), told)
}

// One ensemble bears all of them: each must be healed for the next to begin.
func TestEachFaultDoesWhatItSaysAndIsHealed(t *testing.T) {
	names := []string{"a", "b", "c"}
	for _, s := range networkStories() {
		names = append(names, string(s.kind))
	}
	w := settle(t, nemesis.Options{Seed: 3, Lanes: 3, Hold: 200 * time.Millisecond, Rest: 50 * time.Millisecond}, names...)
	require.Empty(t, w.Unavailable(), "run make setup")
	require.True(t, t.Run("network", func(t *testing.T) {
		for _, s := range networkStories() {
			t.Run(string(s.kind), func(t *testing.T) {
				t.Parallel()
				own := *w
				own.name, own.a = string(s.kind), w.clients[string(s.kind)]
				s.tell(&own, t, s.kind)
				own.whole(t)
			})
		}
	}))
	for _, s := range serverStories() {
		require.True(t, t.Run(string(s.kind), func(t *testing.T) {
			s.tell(w, t, s.kind)
			w.whole(t)
		}))
	}
	require.True(t, t.Run("random", w.random))
	require.True(t, t.Run("unsupported", w.unsupported))
}

// random: Run plays what comes, and leaves all whole.
func (w *town) random(t *testing.T) {
	w.processes.fail(errBusy)
	defer w.processes.fail(nil)
	before := len(w.Faults())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	happens(t, "some faults", func() bool {
		_ = w.a.write()
		require.LessOrEqual(t, w.open(), 3)
		return len(w.Faults()) >= before+6
	})
	cancel()
	require.NoError(t, <-ran)

	require.Zero(t, w.open())
	w.whole(t)
	faults := w.Faults()
	for i, f := range faults {
		require.Equal(t, i+1, f.Number)
		require.NotZero(t, f.Ended)
		require.Equal(t, i >= before && slices.Contains([]nemesis.Kind{nemesis.ClientKill, nemesis.ClientPause, nemesis.ClientClock}, f.Kind),
			strings.Contains(f.Err, errBusy.Error()))
	}
	t.Log(faults[before:])
}

func (w *town) unsupported(t *testing.T) {
	w.processes.fail(errors.ErrUnsupported)
	require.Contains(t, w.Available(), nemesis.ClientClock)
	require.ErrorContains(t, w.Play(t.Context(), nemesis.Step{Kind: nemesis.ClientClock}), errors.ErrUnsupported.Error())
	require.NotContains(t, w.Available(), nemesis.ClientClock)
	require.Contains(t, w.Unavailable(), nemesis.ClientClock)
	require.ErrorContains(t, w.Play(t.Context(), nemesis.Step{Kind: nemesis.ClientClock}), "cannot be played")
}
