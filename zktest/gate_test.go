package zktest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestPartitionKeepsEverythingUntilHealed(t *testing.T) {
	h := newHouse()
	cutOff, other := h.dial(t, "A", "listener"), h.dial(t, "B", "listener")
	h.Partition("A")
	require.True(t, cutOff.gate.partitioned())
	require.False(t, other.gate.partitioned())

	cutOff.ask(create("/a"))
	cutOff.tell(zkwire.NodeDeleted, "/x")
	other.ask(create("/b"))
	require.Empty(t, cutOff.saw())
	require.Empty(t, cutOff.got())
	require.Equal(t, []string{"#1 ok"}, other.got())

	h.heal("B")
	require.Empty(t, cutOff.saw(), "that was another partition")
	h.heal("A")
	require.Equal(t, []string{"#1 create /a"}, cutOff.saw())
	require.Equal(t, []string{"NodeDeleted /x", "#1 ok"}, cutOff.got())
}

func TestPartitionWithoutNamesCutsAll(t *testing.T) {
	h := newHouse()
	old := h.dial(t)
	h.Partition()
	h.Partition("A")
	late := h.dial(t, "A")
	old.ask(create("/a"))
	h.heal("A")
	require.Empty(t, old.saw())
	require.Empty(t, late.executed, "nor does it connect")
	h.heal()
	require.Len(t, old.saw(), 1)
	require.Len(t, late.executed, 1)
}

func TestPartitionsOfBothNamesMustBeHealed(t *testing.T) {
	h := newHouse()
	w := h.dial(t, "A", "listener")
	h.Partition("A", "listener")
	w.ask(create("/a"))
	h.heal("A")
	require.Empty(t, w.saw())
	h.heal("listener")
	require.Len(t, w.saw(), 1)
}

func TestServerDoesNotHearOfAHangUpDuringAPartition(t *testing.T) {
	h := newHouse()
	w := h.dial(t, "A")
	h.Partition("A")
	w.ask(create("/a"))
	w.gate.hangUp()
	require.Empty(t, w.saw())
	h.heal()
	require.Equal(t, []string{"#1 create /a", "hang up"}, w.saw(), "what was sent arrives, as with TCP")
}

func TestNothingReachesAServerThatHasDoneWithTheConnection(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	rule := h.On(Op(Create)).Hold()
	w.ask(create("/a"))
	w.gate.end(func() {})
	rule.Release()
	require.Empty(t, w.saw())
}

func TestServerDoesNotHearOfAHangUpBehindAHeldRequest(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	rule := h.On(Op(Create)).Hold()
	w.ask(create("/a"))
	w.gate.hangUp()
	require.Empty(t, w.saw())
	rule.Release()
	require.Equal(t, []string{"#1 create /a", "hang up"}, w.saw())
}

func TestClientThatHangsUpBeforeItWasConnectedWasNeverThere(t *testing.T) {
	h := newHouse()
	h.Partition("A")
	w := h.dial(t, "A")
	w.gate.hangUp()
	require.Equal(t, []string{"hang up"}, w.executed, "its connect would steal the session from a later connection")
	h.heal()
	require.Len(t, w.executed, 1)
}

func TestServersEndComesInItsTurn(t *testing.T) {
	h := newHouse()
	w := h.dial(t, "A")
	rule := h.On(Op(Create)).HoldReply()
	w.ask(create("/a"))
	ended := 0
	w.gate.end(func() { ended++ })
	require.Zero(t, ended, "the reply in front is held")
	h.Partition("A")
	rule.Release()
	require.Zero(t, ended, "the client must not hear of it during a partition")
	h.heal()
	require.Equal(t, 1, ended)
	require.Equal(t, []string{"#1 ok"}, w.got())

	w.ask(create("/b"))
	w.tell(zkwire.NodeCreated, "/b")
	require.Len(t, w.saw(), 1, "nothing passes behind the end")
	require.Len(t, w.got(), 1)
}

func TestServersEndDoesNotWaitForAClientThatHasHungUp(t *testing.T) {
	h := newHouse()
	for name, steps := range map[string]func(w *wireTap, end func()){
		"hang up, end": func(w *wireTap, end func()) { w.gate.hangUp(); end() },
		"end, hang up": func(w *wireTap, end func()) { end(); w.gate.hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			w := h.dial(t, name)
			h.Partition(name)
			w.tell(zkwire.NodeCreated, "/kept")
			ended := 0
			steps(w, func() { w.gate.end(func() { ended++ }) })
			require.Equal(t, 1, ended)
			h.heal(name)
			require.Equal(t, []string{"hang up"}, w.saw())
		})
	}
}

func TestClosedGateForgetsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t)
		hold := h.On(Op(Create)).Hold()
		h.On(Op(Delete)).DelayReply(time.Second)
		w.ask(remove("/a"), create("/b"))
		w.gate.close()
		w.gate.close()
		hold.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		w.tell(zkwire.NodeCreated, "/b")
		w.gate.hangUp()
		w.gate.end(func() { t.Error("the gate is closed") })
		require.Equal(t, []string{"#1 delete /a"}, w.saw())
		require.Empty(t, w.got())
		require.Empty(t, h.gates)
	})
}

func TestSessionIsCutFromOutside(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	require.False(t, h.disconnect(8))
	require.False(t, w.isCut())
	require.True(t, h.disconnect(7))
	require.True(t, w.isCut())
	w.ask(create("/a"))
	require.Empty(t, w.saw())
}

func TestRuleLetsGoOnlyWhatIsNotBehindAnother(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	first := h.On(Op(Create).Path("/a")).Hold()
	second := h.On(Op(Create).Path("/b")).Hold()
	w.ask(create("/a"), create("/b"), create("/c"))
	require.False(t, reached(second), "it is not yet the turn of /b")
	second.Release()
	require.Empty(t, w.saw())
	first.Release()
	require.Len(t, w.saw(), 3)
	require.Zero(t, second.Fired(), "it ended before it could act")
}

func TestRuleSetWhileARequestWaitsForItsTurnActs(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	hold := h.On(Op(Create).Path("/a")).Hold()
	w.ask(create("/a"), create("/b"))
	drop := h.On(Op(Create).Path("/b")).DropRequest()
	hold.Release()
	require.Equal(t, []string{"#1 create /a"}, w.saw())
	require.Equal(t, 1, drop.Fired())
}

func TestReplyIsKnownByItsNumberAmongPings(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	w.mute = true
	rule := h.On(Op(Ping).Nth(2)).HoldReply()
	ping := requestBody(zkwire.XidPing, body{op: zkwire.OpPing})
	w.gate.inbound(ping)
	w.ask(create("/a"))
	w.gate.inbound(ping)
	w.answer(1) // pings may be answered later than what follows
	w.answer(zkwire.XidPing)
	require.Equal(t, []string{"#1 ok", "#-2 ok"}, w.got())
	w.answer(zkwire.XidPing)
	require.True(t, reached(rule))
	require.Len(t, w.got(), 2)
}

func TestUnreadableFramesAreTheServersBusiness(t *testing.T) {
	h := newHouse()
	rule := h.On(Op(Create).Path("/**")).DropRequest()
	var delivered [][]byte
	g := h.open(nil, func(b []byte) { delivered = append(delivered, b) }, func([]byte) {}, func() {})
	defer g.close()
	frames := [][]byte{{}, {1, 2, 3}, zkwire.Int32(zkwire.Int32(nil, 1), int32(zkwire.OpCreate)), {0xff}}
	for _, f := range frames {
		g.inbound(f)
	}
	for _, f := range [][]byte{{0, 0, 0, 0}, {0, 0, 0, 1, 2}} {
		g.outbound(f)
	}
	require.Equal(t, frames, delivered)
	require.Zero(t, rule.Fired())
	for _, e := range h.exchanges() {
		require.Contains(t, e.String(), "unreadable")
	}
}

func TestOneFrameAtATimePassesInEachDirection(t *testing.T) {
	f := newFaults()
	var g *gate
	var steps []string
	pass := func(name string, push func(xid int32)) func([]byte) {
		frames := 0
		return func([]byte) {
			frames++
			n := strconv.Itoa(frames)
			steps = append(steps, name+n+" begins")
			if frames == 1 {
				meanwhile := make(chan struct{})
				go func() {
					defer close(meanwhile)
					push(2)
				}()
				<-meanwhile // it may not wait for its turn either
			}
			steps = append(steps, name+n+" ends")
		}
	}
	ask := func(xid int32) { g.inbound(requestBody(xid, exists("/"))) }
	tell := func(xid int32) { g.outbound(replyFrame(xid, 1, zkwire.OK)) }
	g = f.open(nil, pass("request ", ask), pass("reply ", tell), func() {})
	defer g.close()
	ask(1)
	tell(1)
	require.Equal(t, []string{
		"request 1 begins", "request 1 ends", "request 2 begins", "request 2 ends",
		"reply 1 begins", "reply 1 ends", "reply 2 begins", "reply 2 ends",
	}, steps)
}

// Clients ask, the server tells, rules come and go, partitions begin and end,
// all at once: every stream keeps its order and loses nothing.
func TestOrderIsKeptWhateverHappensAtOnce(t *testing.T) {
	const frames = 300
	h := newHouse()
	var clients, weather sync.WaitGroup
	stop := make(chan struct{})
	taps := make([]*wireTap, 4)
	for i := range taps {
		w := h.dial(t, strconv.Itoa(i))
		taps[i] = w
		clients.Go(func() {
			for n := range frames {
				w.ask(create("/" + strconv.Itoa(n)))
			}
		})
		clients.Go(func() {
			for n := range frames {
				w.tell(zkwire.NodeCreated, "/"+strconv.Itoa(n))
			}
		})
	}
	again := func(f func()) {
		weather.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	again(func() { h.Partition("0", "1"); h.heal("0"); h.heal() })
	again(func() {
		rules := []*Rule{
			h.On(Op(Create).From("1").Times(3)).Hold(), h.On(Any().From("2")).HoldReply(),
			h.On(Event()).Hold(), h.On(Event().Nth(2)).Delay(time.Microsecond),
			h.On(Op(Create).Nth(2)).Delay(time.Microsecond), h.On(Any()).DelayReply(time.Microsecond),
		}
		for _, rule := range rules {
			rule.Release()
		}
		h.unfired()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.faults.mu.Lock()
		defer h.faults.mu.Unlock()
		h.made, h.parted = nil, nil
	})
	clients.Wait()
	close(stop)
	weather.Wait()
	h.heal()

	var asked, answered, told []string
	for n := range frames {
		asked = append(asked, fmt.Sprintf("#%d create /%d", n+1, n))
		answered = append(answered, fmt.Sprintf("#%d ok", n+1))
		told = append(told, fmt.Sprintf("NodeCreated /%d", n))
	}
	for _, w := range taps {
		require.Eventually(t, func() bool { return len(w.got()) == 2*frames }, time.Minute, time.Millisecond)
		require.Equal(t, asked, w.saw())
		var replies, events []string
		for _, line := range w.got() {
			if line[0] == '#' {
				replies = append(replies, line)
			} else {
				events = append(events, line)
			}
		}
		require.Equal(t, answered, replies)
		require.Equal(t, told, events)
		require.False(t, w.isCut())
	}
}
