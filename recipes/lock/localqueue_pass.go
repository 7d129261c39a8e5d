package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A relay is T17 to the next waiter.
type relay struct {
	t      *localTurn
	behind int
	sent   *zkclient.Parcel // nil: it was not sent
}

// passOnAtOnce sends T17 if nothing has to be found out for it and if that does
// not block. The goroutine that reads the reply passes the lock on: the next
// one need not wait until the releasing goroutine gets a processor. It returns
// nil when passOn has to begin.
func (g *Grant) passOnAtOnce(at dataVersion, asked bool) *relay {
	q := g.line
	if q == nil || asked || !at.known || !q.mayPassNow(g) {
		return nil
	}
	t, behind := q.next(g)
	if t == nil {
		return nil
	}
	r := &relay{t: t, behind: behind}
	ops, sent := g.passingOn(t, at, behind), g.s.Now()
	if zkclient.Fits(ops...) == nil {
		r.sent = g.s.PostThen(zkwire.OpMulti, ops, true, func(p *zkclient.Parcel) {
			if result, ok := g.s.Answered(p); ok {
				g.passTo(t, g.inTurn(t, result, sent))
			}
		})
	}
	return r
}

// passOn is T17: the holder's node becomes that of the next waiter. It reports
// whether that is so; if not, the holder has to leave. refused: the next in
// line goes to ZooKeeper, and the holder has to list before it leaves. If it
// left the lock free, the next waiter would take it by T1, past a waiter of
// another process. at is the version of the node at which it was not preempted,
// as far as that was read; asked: it is being preempted; r is what passOnAtOnce
// has begun.
func (g *Grant) passOn(ctx context.Context, at dataVersion, asked bool, r *relay) (passed, refused bool) {
	q := g.line
	if q == nil {
		return false, false
	}
	if r == nil {
		r = &relay{}
		if r.t, r.behind = q.next(g); r.t == nil {
			return false, false
		}
		if asked || !q.mayPass(ctx, g) {
			q.refused(r.t)
			return false, true
		}
	}
	if r.sent != nil {
		<-r.sent.Done() // also if the session is over: t is passed the lock, or is not
		if r.sent.Succeeded() {
			return true, false // by the goroutine that has read the reply
		}
		if _, _, err := g.s.Outcome(r.sent); !errors.Is(err, zkclient.ErrAmbiguous) {
			q.refused(r.t)
			return false, true
		}
		at.known = false
	}
	again, err := g.become(ctx, r.t, at, r.behind)
	if err != nil {
		q.refused(r.t)
		return false, true
	}
	g.passTo(r.t, again)
	return true, false
}

// passTo: the lock is t's by now.
func (g *Grant) passTo(t *localTurn, again *Grant) {
	q := g.line
	q.passedOn(again)
	if _, err := t.a.granted(again); err != nil {
		q.refused(t) // in another session
		return
	}
	t.grants <- again
}

// mayPassNow is mayPass as far as that is known without a look.
func (q *localLine) mayPassNow(g *Grant) bool {
	ls, now := &q.cache.lines, g.s.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return q.passed < q.cache.c.Config().LocalQueue && q.looked != 0 && now.Sub(q.looked) <= freshFor/2 && !q.outranked
}

// mayPass reports whether no request outside of the line comes first: a fresh
// list shows no more important one, and none of the same priority was passed as
// often as the configuration allows.
func (q *localLine) mayPass(ctx context.Context, g *Grant) bool {
	ls, now := &q.cache.lines, g.s.Now()
	ls.mu.Lock()
	full := q.passed >= q.cache.c.Config().LocalQueue
	old := q.looked == 0 || now.Sub(q.looked) > freshFor
	soon := !q.looking && now.Sub(q.looked) > freshFor/2
	ls.mu.Unlock()
	if full || old {
		if err := q.look(ctx, g); err != nil {
			return false
		}
	} else if soon { // while this one is passed on
		q.cache.c.Background(func() { _ = q.look(context.Background(), g) })
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.outranked || full && q.rivalled {
		return false
	}
	if full {
		q.passed = 0
	}
	return true
}

// look finds out who is at the lock beside the line.
func (q *localLine) look(ctx context.Context, g *Grant) error {
	ls := &q.cache.lines
	ls.mu.Lock()
	q.looking = true
	ls.mu.Unlock()
	at := g.s.Now()
	there, me, _, err := g.lock.queueAround(ctx, g.s, g.guid)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q.looking = false
	if err != nil {
		return err
	}
	others := g.lock.cache.strangers.drop(g.lock.path, slices.Concat(there[:me], there[me+1:]))
	if len(others) > 0 {
		g.lock.cache.hints.crowded(g.lock.path)
	}
	q.looked = max(q.looked, at)
	q.outranked = slices.ContainsFunc(others, func(c child) bool { return c.level().Outranks(q.key.level) })
	q.rivalled = slices.ContainsFunc(others, func(c child) bool { return c.level() == q.key.level })
	return nil
}

// errNotPassedOn: the holder's node says something else than what is passed on.
var errNotPassedOn = errors.New("the lock cannot be passed on")

// become makes the holder's node that of the next waiter. With an error the lock is
// not that one's.
func (g *Grant) become(ctx context.Context, t *localTurn, at dataVersion, behind int) (*Grant, error) {
	for {
		sent := g.s.Now()
		if !at.known { // or the reply to the transaction was lost: done twice, it is as good
			found, stat, err := g.own(ctx)
			switch {
			case errors.Is(err, zkclient.ErrAmbiguous):
				continue
			case err != nil:
				return nil, err
			case !found.Granted || len(found.Preempt) > 0:
				return nil, errNotPassedOn
			}
			at, sent = dataVersion{stat.Version, true}, g.s.Now()
		}
		r, _, err := g.s.Multi(ctx, g.passingOn(t, at, behind)...)
		switch {
		case err == nil:
			return g.inTurn(t, r, sent), nil
		case errors.Is(err, zkclient.ErrAmbiguous):
			at.known = false
		default:
			return nil, err
		}
	}
}

// passingOn are the operations of T17.
func (g *Grant) passingOn(t *localTurn, at dataVersion, behind int) []any {
	rec := newRecord(g.lock.c, t.a.req)
	rec.Granted, rec.Behind = true, behind
	record := soleHolder(g.guid)
	if len(g.evicted) > 0 {
		if kept := (lockRecord{Evicted: g.evicted}).news(g.stamp.NotAhead(g.s.Now())); len(kept) > 0 {
			record = lockRecord{Evicted: kept}.with(g.guid, nil).encode()
		}
	}
	return []any{
		&zkclient.SetDataRequest{Path: g.path, Data: rec.encode(), Version: at.version},
		&zkclient.SetDataRequest{Path: g.lock.path, Data: record, Version: -1},
	}
}

// A dataVersion is the version of a node's data, as last seen.
type dataVersion struct {
	version int32
	known   bool
}

// learn takes note of a look; one that is older than another says nothing.
func (v *dataVersion) learn(stat *zkclient.Stat) {
	if !v.known || stat.Version > v.version {
		*v = dataVersion{stat.Version, true}
	}
}

// own reads the holder's node.
func (g *Grant) own(ctx context.Context) (contenderRecord, *zkclient.Stat, error) {
	data, stat, err := g.s.Get(ctx, g.path)
	if err != nil {
		return contenderRecord{}, nil, err
	}
	rec, err := decodeContender(data)
	return rec, stat, err
}

// inTurn is the grant of the next waiter, on the node of this one.
func (g *Grant) inTurn(t *localTurn, r []zkclient.MultiResponse, sent zkclient.Instant) *Grant {
	stat, version := r[0].Stat, r[1].Stat.Version
	return &Grant{
		lock: g.lock, s: g.s, req: t.a.req, mode: t.a.req.Mode, guid: g.guid, path: g.path, epoch: g.epoch, version: version,
		evicted: g.evicted, stamp: zkclient.ServerStamp{At: stat.Mtime, Sent: sent, Replied: g.s.Now()},
		notices: t.a.notices, leaseTo: g.s.Now().Add(t.a.req.LeaseTimeout), token: Token(stat.Mzxid),
		at: dataVersion{stat.Version, true}, line: g.line,
	}
}

// enter puts a grant into its line, unless it is lost by now.
func (g *Grant) enter(q *localLine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.line = q
	return g.state == stateHeld
}

// leaseLeft is how long the lease goes on.
func (g *Grant) leaseLeft() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leaseTo.Sub(g.s.Now())
}

// contender describes the holder as far as its own process knows it.
func (g *Grant) contender() Contender {
	g.mu.Lock()
	defer g.mu.Unlock()
	identity, terms := g.req.Identity, g.req.Terms
	identity.Host, identity.PID, terms.Mode = g.lock.c.Host(), g.lock.c.PID(), g.mode
	return Contender{ID: g.guid, Identity: identity, Terms: terms, Token: g.token}
}
