package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestDroppedRequestIsNotExecutedAndTheConnectionIsCut(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	rule := h.On(Op(Create).Path("/b")).DropRequest()
	w.ask(create("/a"))
	require.False(t, reached(rule))
	w.ask(create("/b"), create("/c"))
	require.Equal(t, []string{"#1 create /a"}, w.saw())
	require.Equal(t, []string{"#1 ok"}, w.got())
	require.True(t, w.isCut())
	require.True(t, reached(rule))
	require.Equal(t, 1, rule.Fired())
	w.gate.hangUp()
	require.Equal(t, []string{"#1 create /a", "hang up"}, w.saw(), "the server must learn that the client is gone")
}

func TestDroppedReplyIsExecutedAndTheConnectionIsCut(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	rule := h.On(Op(Create).Path("/b")).DropReply()
	w.ask(create("/a"), create("/b"), create("/c"))
	require.Equal(t, []string{"#1 create /a", "#2 create /b"}, w.saw())
	require.Equal(t, []string{"#1 ok"}, w.got())
	require.True(t, w.isCut())
	require.Equal(t, 1, rule.Fired())
	w.tell(zkwire.NodeCreated, "/b")
	require.Equal(t, []string{"#1 ok"}, w.got(), "nothing is sent behind a dropped reply")
}

func TestDroppedReplyTakesNothingBeforeItAway(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	w.mute = true
	rule := h.On(Op(Create).Nth(2)).DropReply()
	w.ask(create("/a"), create("/b"), create("/c"))
	require.Zero(t, rule.Fired(), "the reply is not there yet")
	w.answer(1)
	w.tell(zkwire.NodeCreated, "/b")
	require.False(t, w.isCut())
	w.answer(2)
	w.answer(3)
	require.True(t, w.isCut())
	require.Equal(t, []string{"#1 ok", "NodeCreated /b"}, w.got())
	require.Equal(t, 1, rule.Fired())
}

func TestDelayedRequestIsExecutedLaterAndSoIsWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t)
		rule := h.On(Op(Create)).Delay(3 * time.Second)
		w.ask(create("/a"))
		time.Sleep(time.Second)
		w.ask(remove("/a"), create("/b"))
		require.True(t, reached(rule))

		time.Sleep(2*time.Second - 1)
		synctest.Wait()
		require.Empty(t, w.saw())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []string{"#1 create /a", "#2 delete /a"}, w.saw())

		time.Sleep(time.Second) // each counts from when it was sent: delays do not add up
		synctest.Wait()
		require.Equal(t, []string{"#1 create /a", "#2 delete /a", "#3 create /b"}, w.saw())
		require.Equal(t, 2, rule.Fired())
	})
}

func TestDelayedReplyComesLaterAndSoDoesWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t)
		rule := h.On(Op(Create)).DelayReply(3 * time.Second)
		w.ask(create("/a"), remove("/a"))
		w.tell(zkwire.NodeDeleted, "/a")
		require.Equal(t, []string{"#1 create /a", "#2 delete /a"}, w.saw())

		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		require.Empty(t, w.got())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []string{"#1 ok", "#2 ok", "NodeDeleted /a"}, w.got())
		require.Equal(t, 1, rule.Fired())
	})
}

func TestHeldRequestIsExecutedOnceReleased(t *testing.T) {
	h := newHouse()
	w, other := h.dial(t), h.dial(t)
	rule := h.On(Op(Create).Path("/a")).Hold()
	w.ask(exists("/"), create("/a"), remove("/a"))
	require.True(t, reached(rule))
	other.ask(remove("/x"))
	require.Equal(t, []string{"#1 exists /, watch"}, w.saw())
	require.Equal(t, []string{"#1 delete /x"}, other.saw(), "other connections go on")
	w.tell(zkwire.NodeDeleted, "/x")
	require.Equal(t, []string{"#1 ok", "NodeDeleted /x"}, w.got(), "so does the other direction")

	rule.Release()
	require.Equal(t, []string{"#1 exists /, watch", "#2 create /a", "#3 delete /a"}, w.saw())
	w.ask(create("/a"))
	require.Len(t, w.saw(), 4, "a released rule holds nothing more")
	require.Equal(t, 1, rule.Fired())
}

func TestReleaseLetsGoInTheOrderOfArrival(t *testing.T) {
	h := newHouse()
	first, second := h.dial(t), h.dial(t)
	rule := h.On(Op(Create)).Hold()
	var order []string
	h.On(Any().Where(func(q Request) bool {
		order = append(order, q.Path)
		return false
	})).Delay(0)
	second.ask(create("/second"))
	first.ask(create("/first"))
	order = nil
	second.ask(remove("/second/behind"))
	first.ask(remove("/first/behind"))
	require.Empty(t, order)
	rule.Release()
	require.Equal(t, []string{"/second/behind", "/first/behind"}, order)
}

func TestFailedRequestIsAnsweredInItsTurnAndNotExecuted(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	w.mute = true
	rule := h.On(Op(Create)).Fail(NoAuth)
	w.ask(exists("/a"), create("/a"), create("/b"), exists("/b"), create("/c"))
	require.Equal(t, []string{"#1 exists /a, watch", "#4 exists /b, watch"}, w.saw())
	require.Empty(t, w.got())
	w.answer(1)
	require.Equal(t, []string{"#1 ok", "#2 no auth", "#3 no auth"}, w.got())
	w.answer(4)
	require.Equal(t, []string{"#1 ok", "#2 no auth", "#3 no auth", "#4 ok", "#5 no auth"}, w.got())
	require.Equal(t, 3, rule.Fired())
}

func TestFailureTellsTheLastTransactionThatTheClientKnows(t *testing.T) {
	h := newHouse()
	var last []byte
	g := h.open(nil, func([]byte) {}, func(frame []byte) { last = frame }, func() {})
	defer g.close()
	g.inbound(connectBody(0))
	g.outbound(zkwire.ConnectResponse{Session: 7, Timeout: 1}.Append(nil))
	g.inbound(requestBody(1, exists("/")))
	g.outbound(replyFrame(1, 42, zkwire.OK))
	h.On(Any()).Fail(BadVersion)
	g.inbound(requestBody(2, remove("/")))
	require.Equal(t, replyFrame(2, 42, zkwire.BadVersion), last)
}

func TestFailureIsNotStuckBehindARequestThatTheServerNeverAnswers(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	w.mute = true
	h.On(Op(Create)).Fail(NoAuth)
	w.ask(exists("/silence"), create("/a"), exists("/b"))
	w.answer(3)
	require.Equal(t, []string{"#2 no auth", "#3 ok"}, w.got())
}

func TestConnectIsNeverFailed(t *testing.T) {
	h := newHouse()
	rule := h.On(Any()).Fail(NoAuth)
	w := h.dial(t)
	w.ask(exists("/"))
	require.Equal(t, []string{"#1 no auth"}, w.got())
	require.Equal(t, 1, rule.Fired())
}

func TestEventsAreHeldDelayedAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t)
		hold := h.On(Event(NodeDeleted).Path("/held").Nth(1)).Hold()
		delay := h.On(Event().Path("/slow")).Delay(time.Second)
		drop := h.On(Event(NodeCreated)).DropEvent()

		w.tell(zkwire.NodeDeleted, "/held")
		w.ask(create("/a"))
		require.Empty(t, w.got(), "the reply is behind the event")
		hold.Release()
		require.Equal(t, []string{"NodeDeleted /held", "#1 ok"}, w.got())

		w.tell(zkwire.NodeDataChanged, "/slow")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"NodeDeleted /held", "#1 ok", "NodeDataChanged /slow"}, w.got())

		require.False(t, w.isCut())
		w.tell(zkwire.NodeCreated, "/a")
		require.True(t, w.isCut())
		require.Len(t, w.got(), 3)
		for _, rule := range []*Rule{hold, delay, drop} {
			require.Equal(t, 1, rule.Fired(), "%s", rule)
		}
	})
}

func TestConnectCanBeDroppedAndItsReplyToo(t *testing.T) {
	h := newHouse()
	h.On(Op(Connect).Nth(1)).DropRequest()
	h.On(Op(Connect).Nth(2)).DropReply()
	request, reply := h.dial(t), h.dial(t)
	require.True(t, request.isCut())
	require.Empty(t, request.executed)
	require.True(t, reply.isCut())
	require.Equal(t, []string{"connect"}, reply.executed)
	require.Empty(t, reply.received)
	require.False(t, h.dial(t).isCut())
}
