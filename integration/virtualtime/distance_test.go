package virtualtime

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// trip is how long it takes from a program that is far away to the server and
// back. Nothing else takes time here, so what waits for n answers one after the
// other takes n trips.
const trip = 10 * time.Millisecond

func TestRoundTripsOfAHold(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.program("holder", long, far)
		warm(t, p, scope)

		// a lock that nobody else wants: one for T1, one for T5
		start := w.now()
		held := p.do(lockguard.Requirement{}, lasting(time.Millisecond))
		require.NoError(t, held.returned())
		require.Equal(t, trip, held.began()-start)
		require.Equal(t, 2*trip+time.Millisecond, held.ended-start)
	})
}

func TestRoundTripsOfAHandOver(t *testing.T) {
	for name, work := range map[string]time.Duration{"after a short hold": 10 * trip, "after a long one": 90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				holder, equal, quiet := w.program("holder", long, far), w.program("equal", long, far), w.program("quiet", long, far)
				warm(t, holder, scope)
				warm(t, equal, "another")
				warm(t, quiet, "another")

				// given a holder, one that waits, and one that comes first and asks nobody to go
				held := holder.do(lockguard.Requirement{}, lasting(time.Minute+work))
				w.until(30 * time.Second)
				last := equal.do(lockguard.Requirement{}, lasting(work))
				w.until(time.Minute)
				first := quiet.do(lockguard.Requirement{Priority: 5, NeverPreempts: true}, lasting(work))

				// then from the end of a hold to the next one's work: T4 and its event, and the token; and where nobody was there when the
				// hold began, the list and the next one's request before that
				require.NoError(t, held.returned())
				require.NoError(t, first.returned())
				require.NoError(t, last.returned())
				require.Equal(t, held.began()+time.Minute+work+4*trip, first.began())
				require.Equal(t, first.began()+work+2*trip, last.began())
			})
		})
	}
}

// A hold that ends while its holder looks who is next waits for that look, and does not begin another.
func TestHandOverWaitsForTheLookThatIsUnderWay(t *testing.T) {
	const work = 2 * time.Millisecond
	story(t, func(t *testing.T, w *world) {
		first, holder, last := w.program("first", long, far), w.program("holder", long, far), w.program("last", long, far)
		for _, p := range []*program{first, holder, last} {
			warm(t, p, "another")
		}
		before := first.do(lockguard.Requirement{}, lasting(time.Minute))
		w.until(time.Second)
		var ended time.Duration
		done := make(chan error, 1)
		go func() {
			lock, err := holder.client.PriorityLock(scope)
			if err != nil {
				done <- err
				return
			}
			g, err := lock.Acquire(t.Context(), recipes.Request{}) // without a token, which would take as long
			if err != nil {
				done <- err
				return
			}
			time.Sleep(work)
			ended = w.now()
			done <- g.Release(t.Context())
		}()
		w.until(2 * time.Second)
		next := last.do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(t, before.returned())
		require.NoError(t, <-done)
		require.NoError(t, next.returned())

		// the look (the list, the next one's request) began 0.2 ms after the grant; then T4 and its event, and the token
		require.Equal(t, ended-work+200*time.Microsecond+4*trip, next.began())
	})
}

func TestRoundTripsOfAPreemption(t *testing.T) {
	for name, cleanup := range map[string]time.Duration{"that is cleaned up after soon": 3 * trip, "that is cleaned up after for long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				holder, urgent := w.program("holder", long, far), w.program("urgent", long, far)
				warm(t, holder, scope)
				warm(t, urgent, "another")
				held := holder.do(lockguard.Requirement{CleanupTimeout: time.Hour}, untilCancelled, lasting(cleanup))
				w.until(time.Minute)

				// from the request to the victim's context: the list, the node, all that is to be known, T6, and what T6 says
				first := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
				<-held.hold().Context().Done()
				require.Equal(t, 5*trip, w.now()-time.Minute)

				// from the end of the cleanup to the preemptor's work: T4 and its event, and the token
				w.until(time.Minute + 5*trip + cleanup + 3*trip)
				require.Equal(t, time.Minute+5*trip+cleanup+2*trip, first.began())
				require.Error(t, held.returned())
			})
		})
	}
}

// A holder that knows already who is next is asked to go for another one.
func TestRoundTripsOfAPreemptionWhereSomebodyWaitsAlready(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		first, holder, equal, urgent := w.program("first", long, far), w.program("holder", long, far), w.program("equal", long, far), w.program("urgent", long, far)
		for _, p := range []*program{first, holder, equal, urgent} {
			warm(t, p, "another")
		}
		before := first.do(lockguard.Requirement{}, lasting(10*time.Second))
		w.until(time.Second)
		held := holder.do(lockguard.Requirement{CleanupTimeout: time.Hour}, untilCancelled, lasting(45*time.Second))
		w.until(2 * time.Second)
		later := equal.do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(t, before.returned())
		w.until(90 * time.Second)

		next := urgent.do(lockguard.Requirement{Priority: 5}, lasting(time.Second))
		<-held.hold().Context().Done()
		asked := w.now()
		require.NoError(t, next.returned())
		require.Equal(t, asked+45*time.Second+2*trip, next.began())
		require.NoError(t, later.returned())
		require.Error(t, held.returned())
	})
}

func TestHandOverThatWasPreparedMindsWhoHasComeSince(t *testing.T) {
	for name, before := range map[string]time.Duration{
		"long before":  30 * time.Second,
		"a moment ago": 2*trip + time.Millisecond, // the holder has heard of it, and does not know who it is
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				holder, urgent, higher := w.program("holder", long, far), w.program("urgent", long, far), w.program("higher", long, far)
				warm(t, holder, scope)
				warm(t, urgent, "another")
				warm(t, higher, "another")

				// given a holder that cleans up for one that has asked it to go
				held := holder.do(lockguard.Requirement{CleanupTimeout: time.Hour}, untilCancelled, lasting(time.Minute))
				w.until(time.Minute)
				first := urgent.do(lockguard.Requirement{Priority: 5}, lasting(time.Second))
				<-held.hold().Context().Done()
				end := w.now() + time.Minute

				// when somebody more important comes meanwhile
				w.until(end - before)
				second := higher.do(lockguard.Requirement{Priority: 9}, lasting(time.Second))

				// then that is granted first
				require.NoError(t, second.returned())
				if before > time.Second { // prepared, as for the other
					require.Equal(t, end+2*trip, second.began())
				}
				require.NoError(t, first.returned())
				require.Greater(t, first.began(), second.began())
				require.Error(t, held.returned())
			})
		})
	}
}

// warm makes a program know the root, and a lock.
func warm(t *testing.T, p *program, scope string) {
	t.Helper()
	lock, err := p.client.PriorityLock(scope)
	require.NoError(t, err)
	g, err := lock.Acquire(t.Context(), recipes.Request{})
	require.NoError(t, err)
	require.NoError(t, g.Release(t.Context()))
	<-time.After(tick - time.Since(p.w.start)%tick)
	p.w.start = time.Now()
}

// far puts a program at a distance from the server.
func far(cfg *recipes.Config) {
	dial := cfg.Dialer
	cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &farConn{Conn: conn, there: newLane(), here: newLane()}
		go c.there.carry(conn.Write)
		go func() {
			for {
				chunk := make([]byte, 64<<10)
				n, err := conn.Read(chunk)
				c.here.put(chunk[:n], err)
				if err != nil {
					return
				}
			}
		}()
		return c, nil
	}
}

// A farConn is a connection on which everything is on its way for half a trip.
type farConn struct {
	net.Conn

	there, here *lane
	rest        []byte
}

func (c *farConn) Write(b []byte) (int, error) {
	c.there.put(append([]byte(nil), b...), nil)
	return len(b), nil
}

func (c *farConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		chunk, err := c.here.take()
		if err != nil {
			return 0, err
		}
		c.rest = chunk
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *farConn) Close() error {
	c.there.end()
	c.here.end()
	return c.Conn.Close()
}

// A lane is one direction.
type lane struct {
	mu     sync.Mutex
	parcel chan struct{}
	queue  []parcel
	over   chan struct{}
	end    func()
}

type parcel struct {
	bytes []byte
	err   error
	at    time.Time
}

func newLane() *lane {
	l := &lane{parcel: make(chan struct{}, 1), over: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.over) })
	return l
}

func (l *lane) put(b []byte, err error) {
	l.mu.Lock()
	l.queue = append(l.queue, parcel{b, err, time.Now().Add(trip / 2)})
	l.mu.Unlock()
	select {
	case l.parcel <- struct{}{}:
	default:
	}
}

func (l *lane) take() ([]byte, error) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			p := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			select {
			case <-time.After(time.Until(p.at)):
				return p.bytes, p.err
			case <-l.over:
				return nil, io.EOF
			}
		}
		l.mu.Unlock()
		select {
		case <-l.parcel:
		case <-l.over:
			return nil, io.EOF
		}
	}
}

func (l *lane) carry(write func([]byte) (int, error)) {
	for {
		b, err := l.take()
		if err == nil {
			_, err = write(b)
		}
		if err != nil {
			return
		}
	}
}
