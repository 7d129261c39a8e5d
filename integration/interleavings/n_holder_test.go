package interleavings

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// briefly is a session timeout that can be waited for in real time.
const briefly = 4 * time.Second

func session(timeout time.Duration) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.SessionTimeout = timeout }
}

// N5: a holder hears nothing any more.
func TestHolderThatHearsNothingKnowsAMarginBeforeTheServerFreesTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder with a short session, and a more important one that waits politely for its cleanup
		w.client("H", session(briefly))
		h := w.hold("H", at(1), cleanup(time.Hour))
		s := w.ask("S", at(9))
		await[recipes.PreemptAsked](h)

		// when the network swallows all that it sends and all that is sent to it
		w.Partition("H")
		cut := w.elapsed()

		// then it is warned, told of its loss before the session is over, and only later its successor holds
		await[recipes.AtRisk](h)
		lost, at := awaitAt[recipes.Lost](h)
		require.Equal(w, recipes.LossSession, lost.Err.Reason)
		s.granted()
		margin := w.elapsed() - at
		if w.z != nil {
			require.LessOrEqual(w, at-cut, briefly*11/12)
			require.GreaterOrEqual(w, margin, briefly/12)
		}
		require.Less(w, at-cut, briefly) // a busy machine may take a part of the margin away
		require.GreaterOrEqual(w, margin, briefly/24)

		// and its token is old
		require.Greater(w, s.token(), lost.Err.Token)
		w.Heal("H")
	})
}

// N6: a holder stands still longer than its session lasts, and goes on.
func TestHolderThatStoodStillFindsItsLossBeforeItsNextStep(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder with a short session, and a successor
		still := &standstill{}
		w.Cleanup(still.end)
		w.client("H", session(briefly), still.in, func(cfg *recipes.Config) { cfg.Margin = briefly / 16 })
		h := w.hold("H", at(5))
		s := w.ask("S", at(1))
		s.queued()

		// when it stands still, just after an answer, until that one holds
		w.referee.forgive(h.id())
		require.NoError(w, h.grant.Extend(w.Context(), time.Hour))
		still.begin()
		s.granted()
		require.Zero(w, times[recipes.Lost](h), "it does not know yet")

		// then its next step finds out, before anybody has told it, and its token is refused
		var lost *recipes.LostError
		require.ErrorAs(w, h.grant.Check(), &lost)
		require.Equal(w, recipes.LossSession, lost.Reason)
		require.Less(w, h.token(), s.token())

		// and when it goes on it changes nothing
		still.end()
		require.ErrorAs(w, h.grant.Release(w.Context()), &lost)
		require.Equal(w, 1, times[recipes.Lost](h))
		require.Equal(w, []string{"S"}, w.holders())
	})
}

// N11: the holder's cleanup takes longer than its grace.
func TestHolderThatOverrunsItsGraceIsTakenOverAtItsEnd(t *testing.T) {
	const grace = 300 * time.Millisecond
	scenario(t, func(w *world) {
		// given a holder that goes on when it is asked to go
		h := w.hold("H", at(1), cleanup(grace))

		// when a forceful preemptor asks
		p := w.ask("P", at(9), forceful)
		_, asked := awaitAt[recipes.PreemptSent](p)
		require.Equal(w, grace, await[recipes.PreemptAsked](h).Grace)

		// then that one takes over when the grace is over, not earlier
		_, taken := awaitAt[recipes.TookOver](p)
		require.GreaterOrEqual(w, taken-asked, grace)
		if w.z != nil {
			require.Equal(w, grace, taken-asked)
		}
		p.granted()

		// and the holder is told who took it, and what it writes with its token is refused
		lost := await[recipes.Lost](h).Err
		require.Equal(w, recipes.LossTaken, lost.Reason)
		require.Equal(w, "P", lost.By)
		require.Less(w, h.token(), p.token())
		require.ErrorIs(w, h.grant.Release(w.Context()), lost)
		require.Equal(w, []string{"P"}, w.holders())
	})
}

// A standstill stops a client as SIGSTOP would stop its process, as far as that
// goes from inside: nothing comes in or goes out, and whoever asks where a connection
// leads waits. Its watchdog does that when nothing has come for two fifths
// of the session, and so does not see the deadline pass.
type standstill struct {
	mu sync.Mutex
	on chan struct{} // closed at its end; nil while there is none
}

func (s *standstill) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = make(chan struct{})
}

// end may be called again.
func (s *standstill) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on != nil {
		close(s.on)
		s.on = nil
	}
}

func (s *standstill) wait() {
	s.mu.Lock()
	on := s.on
	s.mu.Unlock()
	if on != nil {
		<-on
	}
}

func (s *standstill) in(cfg *recipes.Config) {
	dial := cfg.Dialer
	cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stillConn{conn, s}, nil
	}
}

type stillConn struct {
	net.Conn
	still *standstill
}

func (c *stillConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.still.wait()
	return n, err
}

func (c *stillConn) Write(b []byte) (int, error) {
	c.still.wait()
	return c.Conn.Write(b)
}

func (c *stillConn) Close() error {
	c.still.wait()
	return c.Conn.Close()
}

func (c *stillConn) RemoteAddr() net.Addr {
	c.still.wait()
	return c.Conn.RemoteAddr()
}
