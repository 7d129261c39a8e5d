package classic

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const ready = meeting + "/ready"

func TestEnteringAnOpenBarrierWithAContextThatHasEndedFails(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	b := h.doubleBarrier(h.client(), 1)
	h.enter(b).inside()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := b.Enter(ctx)

	require.ErrorIs(t, err, context.Canceled, "there would be no node to leave with")
	h.fills(h.shell(), meeting, 2) // the first and "ready"
}

func TestBarrierIsClosedBehindTheLastThoughNobodyWaitsForThat(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	b := h.doubleBarrier(h.client(), 2)
	guests := []*guest{h.enter(b), h.enter(b)}
	for _, g := range guests {
		g.inside()
	}

	// when all leave in a hurry
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, g := range guests {
		require.ErrorIs(t, g.member.Leave(ctx), context.Canceled)
	}

	// then the next round begins with two, not with one
	h.gone(h.shell(), ready)
	first := h.enter(b)
	h.fills(h.shell(), meeting, 1)
	h.becomesWatched(meeting+"/"+h.memberName(), 1)
	first.goesOn()
	h.enter(b).inside()
	first.inside()
}

func TestLeavingAgainWhileTheFirstIsNotAnsweredIsNoLoss(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, w *world) {
		b, err := w.client("mine").DoubleBarrier(meeting, 1)
		require.NoError(t, err)
		m, err := b.Enter(t.Context())
		require.NoError(t, err)

		// given one that gives up to leave while the answer is on its way
		answer := w.zk.On(zktest.Op(zktest.Multi).From("mine")).HoldReply()
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- m.Leave(ctx) }()
		<-answer.Reached()
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)

		// when it leaves again, and then the answer comes
		again := make(chan error, 1)
		go func() { again <- m.Leave(t.Context()) }()
		synctest.Wait()
		answer.Release()

		// then it has left
		require.NoError(t, <-again)
	})
}

// A straggler is the last of a round to look whether the barrier is closed. It
// has looked, and is about to close it, until goOn is called.
type straggler struct {
	*call
	goOn func()
}

func (h *house) straggle() *straggler {
	h.t.Helper()
	wires := []*wire{{}, {}}
	clients := []*recipes.Client{h.client(through(wires[0])), h.client(through(wires[1]))}
	guests := []*guest{h.enter(h.doubleBarrier(clients[0], 2)), h.enter(h.doubleBarrier(clients[1], 2))}
	for _, g := range guests {
		g.inside()
	}
	shell := h.shell()
	names := h.children(shell, meeting)
	slices.Sort(names)
	_, stat, err := shell.Get(h.at(meeting + "/" + names[0]))
	require.NoError(h.t, err)
	lowest := 0
	if id, _ := clients[1].Session(); id == stat.EphemeralOwner {
		lowest = 1
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	wires[1-lowest].before(opMulti, 0, func() {
		close(reached)
		<-goOn
	})
	s := &straggler{call: h.begin(guests[1-lowest].member.Leave), goOn: func() { close(goOn) }}
	h.fills(shell, meeting, 2) // the lowest and "ready"
	require.NoError(h.t, guests[lowest].member.Leave(h.t.Context()))
	<-reached
	return s
}

func TestStragglerOfOneRoundDoesNotCloseTheNext(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{"empty directory": nil, "directory with data": []byte("noon, in the hall")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			shell := h.shell()
			h.make(shell, meeting, data, 0)

			// given one that is about to close the barrier behind its round
			late := h.straggle()

			// when the next round has begun
			first, second := h.enter(h.doubleBarrier(h.client(), 2)), h.enter(h.doubleBarrier(h.client(), 2))
			mine, theirs := first.inside(), second.inside()
			late.goOn()
			require.NoError(t, late.ended())

			// then that one stays open, until its last has left
			require.True(t, h.exists(shell, ready), "who has not seen it would wait for ever")
			leaving := h.begin(mine.Leave)
			require.NoError(t, theirs.Leave(t.Context()))
			require.NoError(t, leaving.ended())
			h.gone(shell, ready)
			now, _, err := shell.Get(h.at(meeting))
			require.NoError(t, err)
			require.Equal(t, string(data), string(now))
		})
	}
}

func TestStragglerClosesWhatNobodyElseHasClosed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.make(shell, meeting, nil, 0) // one that no server removes meanwhile because it is empty
	late := h.straggle()
	h.make(shell, ready, nil, 0) // as if the last had died

	late.goOn()

	require.NoError(t, late.ended())
	h.gone(shell, ready)
}

func TestDoubleBarrierWorksInADirectoryThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.make(shell, meeting, nil, 0)
	_, err := shell.SetACL(h.at(meeting), zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
	require.NoError(t, err)

	first, second := h.enter(h.doubleBarrier(h.client(), 2)), h.enter(h.doubleBarrier(h.client(), 2))
	mine, theirs := first.inside(), second.inside()
	leaving := h.begin(mine.Leave)
	require.NoError(t, theirs.Leave(t.Context()))
	require.NoError(t, leaving.ended())

	h.nobodyThere()
	h.gone(shell, ready)
}
