package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A place is a server of either kind, behind a proxy with faults.
type place struct {
	*harness.Fixture

	net     *zktest.Proxy
	lose    func(*zktest.Fault) *zktest.Rule
	clients map[string]*lock.Client
}

// lost breaks a client's connection over the first request that matches.
func (p *place) lost(m zktest.Match, name string) {
	p.client(name)
	p.lose(p.net.On(m.From(name).Nth(1)))
}

func (p *place) client(name string) *lock.Client {
	p.Helper()
	if p.clients[name] == nil {
		cfg := lock.Config{Dialer: p.net.Dialer(name), Root: p.Root, SessionTimeout: 10 * time.Second}
		if name == "ana" {
			cfg.Auth = &lock.Digest{User: name, Password: "s3cret"}
		}
		p.clients[name] = harness.NewClient(p, cfg)
		require.NoError(p, p.clients[name].Ready(p.Context()))
	}
	return p.clients[name]
}

func (p *place) ask(name string, options ...harness.Option) *harness.Request {
	p.Helper()
	return p.Acquire(p.Lock(p.client(name), users), name, options...)
}

// hold is longer than a short one: those leave without a look at who waits.
func (p *place) hold(name string, options ...harness.Option) *harness.Request {
	p.Helper()
	r := p.ask(name, options...)
	r.Granted()
	<-time.After(short)
	return r
}

func (p *place) wait(name string, options ...harness.Option) *harness.Request {
	p.Helper()
	r := p.ask(name, options...)
	r.Queued()
	return r
}

// are waits until so many requests are there.
func (p *place) are(n int) {
	p.Helper()
	harness.Eventually(p, func() bool { return len(p.Ephemerals()) == n }, "%d requests: %v", n, p.Ephemerals())
}

// Each kind of transaction, when the connection breaks over it: it is done once, and no caller gets an error.
var transactions = map[string]func(p *place){
	"T1, a grant without a queue": func(p *place) {
		p.lost(T1(users), "A")
		p.ask("A").Granted()
		p.are(1)
	},
	"T2, a request that joins the queue": func(p *place) {
		h := p.hold("H")
		p.lost(T2(users), "A")
		a := p.wait("A")
		p.are(2)
		h.Release()
		a.Granted()
	},
	"T3, a grant of the first waiter to itself": func(p *place) {
		p.hold("H")
		a := p.wait("A")
		p.lost(T3(users), "A")
		p.Expire(p.client("H"))
		a.Granted()
		p.are(1)
	},
	"T4, a hand-over": func(p *place) {
		h, a, b := p.hold("H"), p.wait("A"), p.wait("B")
		p.lost(T4(users), "H")
		h.Release()
		a.Granted()
		b.IsPending()
		p.are(2)
	},
	"T4, a hand-over to readers": func(p *place) {
		h, a, b := p.hold("H"), p.wait("A", sharing), p.wait("B", sharing)
		p.lost(T4(users), "H")
		h.Release()
		a.Granted()
		b.Granted()
		p.are(2)
	},
	"T5, a release": func(p *place) {
		h := p.hold("H")
		p.lost(T5(users), "H")
		h.Release()
		p.are(0)
		require.Greater(p, p.hold("A").Token(), h.Token())
	},
	"T5, a release of a short hold": func(p *place) {
		p.lost(T5(users), "H")
		h := p.ask("H")
		h.Release()
		p.are(0)
	},
	"T5, of a reader that has walked in": func(p *place) {
		p.hold("H", sharing)
		p.hold("R", sharing)
		a := p.hold("A", sharing)
		p.lost(zktest.Op(zktest.Multi, zktest.Delete).Path(contenders(users)), "A")
		a.Release()
		p.are(2)
	},
	"T5, a release with a lock-delay": func(p *place) {
		h := p.hold("H", delaying(priority.MaxLockDelay))
		p.lost(CleanT5(users), "H")
		h.Release()
		p.ask("A", harness.Try).Granted()
	},
	"T6, a preemption": func(p *place) {
		h := p.hold("H", cleanup(time.Hour))
		p.lost(T6(users), "A")
		a := p.ask("A", at(5))
		harness.Await[lock.PreemptRequested](p, h.Notices)
		h.Release()
		a.Granted()
	},
	"T6, a request to one of two readers": func(p *place) {
		one, other := p.hold("H", sharing, cleanup(time.Hour)), p.hold("R", sharing, cleanup(time.Hour))
		p.lost(T6(users), "A")
		a := p.ask("A", at(5))
		harness.Await[lock.PreemptRequested](p, one.Notices)
		harness.Await[lock.PreemptRequested](p, other.Notices)
		harness.Await[lock.PreemptSent](p, a.Notices)
		harness.Await[lock.PreemptSent](p, a.Notices)
		require.Len(p, harness.All[lock.PreemptSent](a.Notices), 2)
	},
	"T6, taken back": func(p *place) {
		h := p.hold("H", cleanup(time.Hour))
		a := p.ask("A", at(5))
		harness.Await[lock.PreemptRequested](p, h.Notices)
		p.lost(Withdraws(users), "A")
		a.Cancel()
		a.Refused()
		harness.Await[lock.PreemptionWithdrawn](p, h.Notices)
	},
	"T7, a takeover": func(p *place) {
		h, r := p.hold("H", sharing), p.hold("R", sharing)
		p.lost(T7(users), "A")
		a := p.ask("A", at(5), forceful)
		a.Granted()
		require.Equal(p, lock.LossTaken, h.Lost().Err.Reason)
		require.Equal(p, lock.LossTaken, r.Lost().Err.Reason)
		require.Len(p, harness.Await[lock.TakenOver](p, a.Notices).From, 2)
		require.Len(p, harness.All[lock.TakenOver](a.Notices), 1)
	},
	"T7, a takeover that is delayed": func(p *place) {
		h := p.hold("H", delaying(delay))
		p.lost(T7(users), "A")
		a := p.ask("A", at(5), forceful)
		h.Lost()
		a.Granted()
		require.Len(p, harness.All[lock.TakenOver](a.Notices), 1)
	},
	"T8, a request that leaves": func(p *place) {
		p.hold("H")
		a := p.wait("A")
		p.lost(T8(users), "A")
		a.Cancel()
		require.ErrorIs(p, a.Refused(), context.Canceled)
		p.are(1)
	},
	"T10, a downgrade": func(p *place) {
		h := p.hold("H")
		token := h.Token()
		p.lost(T3(users), "H") // two writes, as T3
		require.NoError(p, h.Granted().Downgrade(p.Context()))
		p.hold("R", sharing)
		require.Equal(p, token, h.Token())
		p.are(2)
	},
	"T11, a longer lease": func(p *place) {
		h := p.hold("H")
		p.lost(T11(users), "H")
		require.NoError(p, h.Granted().Extend(p.Context(), time.Hour))
		require.Greater(p, p.State(p.client("H"), users).Holders[0].LeaseLeft, priority.DefaultLeaseTimeout)
	},
	"T12, a waiter that moves": func(p *place) {
		h := p.hold("H", at(9))
		p.wait("B", at(5))
		var s terms
		a := p.wait("A", at(3), s.under)
		p.lost(T12(users), "A")
		s.change(to(7))
		require.Equal(p, priority.Level(7), harness.Await[lock.Revised](p, a.Notices).Priority)
		require.Equal(p, 1, a.Queued().Position)
		p.are(3)
		h.Release()
		a.Granted()
		require.Len(p, harness.All[lock.Revised](a.Notices), 1)
	},
	"T13, a waiter that changes in its place": func(p *place) {
		h := p.hold("H", at(9))
		var s terms
		a := p.wait("A", at(3), lease(time.Minute), s.under)
		p.lost(T13(users), "A")
		s.change(func(t *lock.Revision) { t.LeaseTimeout = time.Hour })
		require.Equal(p, time.Hour, harness.Await[lock.Revised](p, a.Notices).LeaseTimeout)
		h.Release()
		a.Granted()
		require.Equal(p, time.Hour, p.State(p.client("A"), users).Holders[0].LeaseTimeout)
		require.Len(p, harness.All[lock.Revised](a.Notices), 1)
	},
	"T18, a reader that walks in": func(p *place) {
		p.hold("H", sharing)
		p.hold("R", sharing)
		p.lost(T18(users), "A")
		require.NotZero(p, p.ask("A", sharing).Token())
		p.are(3)
	},
	"a break": func(p *place) {
		h := p.hold("H")
		p.lost(Breaks(users), "ana")
		r := lock.BreakRequest{Scope: users, Token: h.Token(), By: "ana", Reason: "it hangs"}
		victim, err := p.client("ana").Break(p.Context(), r)
		require.NoError(p, err)
		require.Equal(p, "H", victim.Owner)
		require.Equal(p, lock.LossBroken, h.Lost().Err.Reason)
	},
	"a removal of idle locks": func(p *place) {
		p.hold("H").Release()
		p.lost(Removes(), "gc")
		found, err := p.client("gc").CollectIdle(p.Context(), lock.IdleOptions{Older: 1})
		require.NoError(p, err)
		require.Equal(p, []string{users}, removed(found))
		require.Empty(p, found.Left)
	},
}

func TestTransactionThatIsLostIsDoneOnce(t *testing.T) {
	for name, play := range transactions {
		for how, lose := range losses {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				f := harness.New(t, shared.Server(t))
				play(&place{f, zktest.RunProxyT(t, f.Server.Addr()), lose, make(map[string]*lock.Client)})
			})
		}
	}
}
