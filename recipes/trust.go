package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// trust is the plan of one that joins a queue which its process saw a moment
// ago: it does not look whom it stands behind. It waits for the hand-over about
// as long as its process waited before; if there are several, then from shortly
// before that it looks, now and then, who is behind it.
type trust struct {
	look  instant // the next time
	until instant // then trust ends
}

const (
	// trustAfter is how old the sight of a queue may be.
	trustAfter = 10 * time.Millisecond
	// maxTrust bounds the wait that is expected.
	maxTrust = 50 * time.Millisecond
)

// trust returns the plan of one that joins now; nil if it has to look, because
// nobody was seen lately, or somebody that it may have to preempt.
func (h hint) trust(level priority.Level, joined instant) *trust {
	if h.waiting == 0 || level.Outranks(h.lowest) || time.Since(h.waitingAt) >= trustAfter {
		return nil
	}
	wait := min(h.wait, maxTrust)
	if h.waiting <= 2 { // most likely nobody will be behind it
		end := joined.add(2*wait + time.Millisecond)
		return &trust{look: end, until: end}
	}
	return &trust{look: joined.add(max(wait/2, wait-freshFor)), until: joined.add(2*wait + freshFor)}
}

// rely waits where others were seen in front a moment ago. It returns 0 when
// that is no longer good enough.
func (p *place) rely(ctx context.Context) (time.Duration, error) {
	now := p.s.clock.now()
	if now >= p.trust.until {
		return 0, nil
	}
	if now >= p.trust.look {
		if behind, err := p.foresee(ctx); !behind || err != nil {
			return 0, err
		}
		p.trust.look = now.add(freshFor * 4 / 5)
	}
	return max(0, p.trust.look.sub(p.s.clock.now())), nil
}

// foresee finds out whom this request will grant when it has held the lock: the
// one behind it. It reports whether the request still stands behind others.
func (p *place) foresee(ctx context.Context) (behind bool, err error) {
	seen := p.s.clock.now()
	children, me, err := p.a.l.queueAround(ctx, p.s, p.guid)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		p.stale.Store(true) // the look at the own node tells
		return false, errAgain
	case err != nil:
		return false, err
	case me == 0:
		return false, nil
	case me == len(children)-1:
		return true, nil
	case children[0].level() != p.a.req.Priority:
		// Were the lock given to this request past a more important one, it
		// could not tell that one from a holder that is gone by then.
		return true, nil
	}
	p.heir, err = p.a.l.inherit(ctx, p.s, children[me+1], p.heir, seen)
	if errors.Is(err, errAgain) {
		err = nil // it will be looked for when it is needed
	}
	return true, err
}
