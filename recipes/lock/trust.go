package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// trust is the plan of one that joins a queue which its process saw a moment
// ago: it does not list which requests it stands behind. It waits for the
// hand-over about as long as its process waited before; if there are several,
// then from shortly before that it looks, now and then, who is behind it.
type trust struct {
	look  zkclient.Instant // the next time
	until zkclient.Instant // then trust ends
}

const (
	// trustAfter is how old the sight of a queue may be.
	trustAfter = 10 * time.Millisecond
	// maxTrust is the longest wait that is worth it: against a longer one, a
	// look costs nothing.
	maxTrust = 25 * time.Millisecond
	// maxTrustOfFew is how long one trusts a queue that may well be empty by now.
	maxTrustOfFew = 5 * time.Millisecond
)

// trust returns the plan of one that joins now; nil if it has to list, because
// it has lately seen no request, or one that it may have to preempt.
func (h hint) trust(level priority.Level, joined zkclient.Instant, now time.Time) *trust {
	switch {
	case h.waiting == 0, level.Outranks(h.lowest), now.Sub(h.waitingAt) >= trustAfter, h.wait > maxTrust:
		return nil
	case h.waiting <= 2: // most likely no request will be behind it
		end := joined.Add(min(2*h.wait+time.Millisecond, maxTrustOfFew))
		return &trust{look: end, until: end}
	}
	return &trust{look: joined.Add(max(h.wait/2, h.wait-freshFor)), until: joined.Add(2*h.wait + freshFor)}
}

// rely waits where others were seen in front a moment ago. It returns 0 when
// that is no longer good enough; then the next one that joins looks, too.
func (p *place) rely(ctx context.Context) (time.Duration, error) {
	t := p.trust
	if now := p.s.Now(); now < t.until {
		if now < t.look {
			return t.look.Sub(now), nil
		}
		behind, err := p.foresee(ctx)
		if err != nil {
			return 0, err
		}
		if behind {
			t.look = p.s.Now().Add(freshFor * 4 / 5)
			return freshFor * 4 / 5, nil
		}
	}
	p.trust = nil
	p.a.l.cache.hints.update(p.a.l.path, func(h *hint) { h.waiting = 0 })
	return 0, nil
}

// foresee finds out which waiter this request will grant when it has held the
// lock. It reports whether the request still stands behind others.
func (p *place) foresee(ctx context.Context) (behind bool, err error) {
	seen, known := p.s.Now(), p.heir
	p.heir = nil
	children, me, stat, err := p.a.l.queueAround(ctx, p.s, p.guid)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true) // the look at the own node tells
		return false, errAgain
	case err != nil:
		return false, err
	}
	unread := int(stat.DataLength) > soleHolderLength // news, which the holder that hands over has to hand on
	if heir, ok := heirBehind(children, me); ok && !unread {
		p.heir, err = p.a.l.inherit(ctx, p.s, heir, known, seen)
		if errors.Is(err, errAgain) || errors.Is(err, errStranger) {
			err = nil // it will be looked for when it is needed
		}
		if p.heir != nil {
			p.heir.followed = shareBoth(children[me+1:])
		}
	}
	return me > 0, err
}

// heirBehind returns the one that me will grant: the next. There is none as
// long as a more important request is in front: if the lock were given to me
// past that one, by a holder that has not seen it, me could not tell it from a
// holder that is gone by then.
func heirBehind(children []child, me int) (child, bool) {
	if me == len(children)-1 || children[0].level() != children[me].level() {
		return child{}, false
	}
	return children[me+1], true
}
