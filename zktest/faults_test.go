package zktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNthAndTimesLimitARule(t *testing.T) {
	h := newHouse()
	second := h.On(Op(Create).Nth(2)).Fail(NoAuth)
	twice := h.On(Op(Delete).Times(2)).Fail(NoNode)
	always := h.On(Op(Exists)).Fail(NotEmpty)
	w := h.dial(t)
	w.ask(create("/"), create("/"), create("/"), remove("/"), remove("/"), remove("/"), exists("/"), exists("/"))
	require.Equal(t, []string{
		"#1 ok", "#2 no auth", "#3 ok", "#4 no node", "#5 no node", "#6 ok", "#7 not empty", "#8 not empty",
	}, w.got())
	require.Equal(t, []int{1, 2, 2}, []int{second.Fired(), twice.Fired(), always.Fired()})
	always.Release()
	require.True(t, h.idle(), "what can act no more costs nothing")
}

func TestFirstRuleThatMatchesActsAloneAndAllCount(t *testing.T) {
	h := newHouse()
	late := h.On(Op(Create)) // its place is here, although its action comes last
	first := h.On(Op(Create).Nth(1)).Fail(NoAuth)
	second := h.On(Op(Create).Nth(2)).Fail(NoNode)
	third := h.On(Op(Create).Times(3)).Fail(NotEmpty)
	w := h.dial(t)
	w.ask(create("/"), create("/"), create("/"))
	require.Equal(t, []string{"#1 no auth", "#2 no node", "#3 not empty"}, w.got())
	require.Equal(t, []int{1, 1, 1}, []int{first.Fired(), second.Fired(), third.Fired()})

	h.On(Op(Create)).Fail(NoAuth)
	late.Fail(BadVersion)
	w.ask(create("/"))
	require.Equal(t, "#4 bad version", w.got()[3])
}

func TestEndedRuleActsNoMore(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	removed, released := h.On(Op(Create)).Fail(NoAuth), h.On(Op(Delete)).Fail(NoAuth)
	removed.Remove()
	released.Release()
	w.ask(create("/"), remove("/"))
	require.Equal(t, []string{"#1 ok", "#2 ok"}, w.got())
	require.True(t, h.idle())
}

func TestRuleThatEndsBeforeTheReplyLetsItPass(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	w.mute = true
	rule := h.On(Op(Create)).DropReply()
	w.ask(create("/"))
	rule.Release()
	w.answer(1)
	require.Equal(t, []string{"#1 ok"}, w.got())
	require.False(t, w.isCut())
	require.Zero(t, rule.Fired())
}

func TestReleasedDelayIsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t)
		rule := h.On(Any()).Delay(time.Hour)
		w.ask(create("/"))
		require.Empty(t, w.got())
		rule.Release()
		require.Equal(t, []string{"#1 ok"}, w.got())
	})
}

func TestRulesLookAtTheSession(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	rule := h.On(Any().Session(7)).Hold()
	w.ask(create("/"))
	require.True(t, reached(rule))

	back := h.attach(t)
	returning := h.On(Op(Connect).Session(9)).DropRequest()
	back.gate.inbound(connectBody(9))
	require.Equal(t, 1, returning.Fired())
}

func TestWhereMayAskTheServer(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	h.On(Any().Where(func(Request) bool {
		h.mu.Lock() // as every question to the server does
		defer h.mu.Unlock()
		w.gate.belongsTo(7)
		return true
	})).Fail(NoAuth)
	w.ask(create("/"))
	require.Equal(t, []string{"#1 no auth"}, w.got())
}

func TestWhatNeverHappenedIsReported(t *testing.T) {
	h := newHouse()
	w := h.dial(t, "A")
	h.On(Op(Create)).Fail(NoAuth)
	h.On(Op(Create).Nth(3)).DropReply()
	h.On(Event(NodeDeleted).Path("/x")).Delay(time.Second)
	h.On(Op(Sync))
	h.On(Op(Auth)).Hold().Release()
	h.On(Op(Ping)).Hold().Remove()
	h.Partition("A", "B")
	h.heal()
	w.ask(create("/"))

	unfired := h.unfired()
	require.Len(t, unfired, 5)
	require.Regexp(t, `^DropReply of create, number 3 at faults_test.go:\d+ never fired; 1 matched$`, unfired[0])
	require.Regexp(t, `^Delay\(1s\) of NodeDeleted /x at faults_test.go:\d+ never fired; 0 matched$`, unfired[1])
	require.Regexp(t, `^On\(sync\) at faults_test.go:\d+ has no action, such as DropReply$`, unfired[2])
	require.Regexp(t, `^Hold of auth at faults_test.go:\d+ never fired; 0 matched$`, unfired[3])
	require.Regexp(t, `^Partition\("B"\) at faults_test.go:\d+: no connection had the name$`, unfired[4])
}

func TestPartitionThatConcernsALaterConnectionHappened(t *testing.T) {
	h := newHouse()
	h.Partition("A")
	require.Len(t, h.unfired(), 1)
	h.dial(t, "A")
	require.Empty(t, h.unfired())
}

func TestReachableWaitsForTheEndOfAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		require.NoError(t, h.reachable(t.Context(), "A"))
		h.Partition("A")
		require.NoError(t, h.reachable(t.Context(), "B"))

		patience := errors.New("too long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, patience)
		defer cancel()
		require.ErrorIs(t, h.reachable(ctx, "A"), patience)

		connected := make(chan error, 1)
		go func() { connected <- h.reachable(t.Context(), "A") }()
		synctest.Wait()
		require.Empty(t, connected)
		h.heal("A")
		synctest.Wait()
		require.Len(t, connected, 1)
		require.NoError(t, <-connected)
	})
}
