package classic

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A bid is one call that wants to hold something of a classic recipe, from the
// call to the grant, through as many sessions as that takes.
type bid struct {
	c       *zkclient.Client
	label   string         // the path, as the caller knows it
	timeout *time.Duration // 0: a try; nil: none
	notices *notices

	// in makes the attempt within one session. What it leaves behind after an
	// error it removes, surely.
	in func(ctx context.Context, s *zkclient.Session) (*Grant, error)

	// giveUp removes what outlives the session that it was made in, when the
	// bid has failed. It may be nil.
	giveUp func()

	start  time.Time
	queued bool // it has stood in line
	ahead  int
	front  lock.Contender // who was waited for last
}

// try reports whether the bid must not wait.
func (b *bid) try() bool { return b.timeout != nil && *b.timeout == 0 }

// make carries the bid out. It returns when that is done, or soon after ctx or
// the timeout ends: what is then left to undo is undone in the background.
func (b *bid) make(ctx context.Context) (*Grant, error) {
	b.start = time.Now()
	return call.Call[*Grant]{
		Client: b.c, Scope: b.label, Timeout: b.timeout, Run: b.run, Notices: b.notices, Late: notAcquired,
		GiveBack: func(g *Grant) { _ = g.Release(context.Background()) },
	}.Acquire(ctx)
}

// run makes the attempt in one session after the other.
func (b *bid) run(ctx context.Context) (*Grant, error) {
	s, err := b.c.Admit(ctx)
	for err == nil {
		var g *Grant
		if g, err = b.in(ctx, s); err == nil {
			return g, nil
		}
		// What was held and is lost does not come back with the next session.
		_, lost := errors.AsType[*lock.LostError](err)
		if lost || !errors.Is(err, zkclient.ErrSessionOver) || b.c.IsClosing() {
			break
		}
		if b.queued {
			b.notices.Send(lock.Requeued{Cause: err})
		}
		s, err = b.c.Usable(ctx)
	}
	if b.giveUp != nil {
		b.giveUp()
	}
	return nil, b.explain(err)
}

// explain turns the error that ended the bid into the error that its caller
// gets.
func (b *bid) explain(err error) error {
	switch {
	case errors.Is(err, zkclient.ErrSessionOver) && b.c.IsClosing():
		return zkclient.ErrClosed
	case errors.Is(err, call.ErrTrySlow):
		return b.c.Unavailable()
	case errors.Is(err, errEvicted):
		return &lock.EvictedError{Scope: b.label}
	case errors.Is(err, errInLine):
		return b.notAcquired(0)
	case errors.Is(err, call.ErrTimeout):
		e := b.notAcquired(time.Since(b.start))
		if gone, ok := errors.AsType[*zkclient.UnavailableError](err); ok {
			e.Err = gone
		}
		return e
	}
	return err
}

func (b *bid) notAcquired(waited time.Duration) *lock.NotAcquiredError {
	e := &lock.NotAcquiredError{Scope: b.label, Waited: waited, Ahead: b.ahead}
	if b.front.ID != "" {
		e.Holders = []lock.Contender{b.front}
		e.Ahead--
	}
	return e
}

// tellQueued tells that the bid stands in line, with its watch armed.
func (b *bid) tellQueued(p *stand) func() {
	return func() {
		b.queued = true
		b.note(p)
		b.notices.Send(lock.Queued{Position: p.ahead, Holders: []lock.Contender{b.front}})
	}
}

// note remembers the participant that the bid waits for.
func (b *bid) note(p *stand) {
	if b.ahead = p.ahead; p.frontAt != "" {
		b.front = lock.Contender{ID: p.frontAt, Identity: priority.Identity{Owner: p.front}}
	}
}

// stand makes the bid one that joins a line and waits there until the rule lets
// it pass.
func (b *bid) stand(l *line, e *entry, r rule) {
	if e.lasting {
		b.giveUp = func() { l.giveUp(e) }
	}
	b.in = func(ctx context.Context, s *zkclient.Session) (*Grant, error) {
		if b.try() {
			if err := b.glance(ctx, s, l, e, r); err != nil {
				return nil, err
			}
		}
		p, err := l.join(ctx, s, e)
		if err != nil {
			return nil, err
		}
		err = p.wait(ctx, r, !b.try(), b.tellQueued(p))
		b.note(p)
		if err == nil {
			return p.hold(b.notices)
		}
		if !e.lasting && !s.IsOver() {
			p.leave()
		}
		return nil, err
	}
}

// glance refuses a try without leaving a trace, when another participant is
// there.
func (b *bid) glance(ctx context.Context, s *zkclient.Session, l *line, e *entry, r rule) error {
	for {
		queue, err := l.queue(ctx, s)
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		} else if err != nil {
			return err
		}
		last := ticket{mark: e.mark}
		if len(queue) > 0 {
			last.sequence = queue[len(queue)-1].sequence + 1
		}
		front := r(append(queue, last), len(queue))
		if front < 0 {
			return nil
		}
		data, _, err := s.Get(ctx, l.path+"/"+queue[front].name)
		if errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		}
		b.ahead, b.front = front+1, lock.Contender{ID: queue[front].name, Identity: priority.Identity{Owner: string(data)}}
		return errInLine
	}
}

func notAcquired(scope string, waited time.Duration, unavailable error) error {
	return &lock.NotAcquiredError{Scope: scope, Waited: waited, Err: unavailable}
}

// notices are what the listener of a bid and its grant gets.
type notices = call.Teller[lock.Notice]

// newNotices returns those for a listener, which may be nil. Nothing follows a Lost.
func newNotices(listener func(lock.Notice)) *notices {
	return &notices{Listener: listener, Last: func(n lock.Notice) bool { _, lost := n.(lock.Lost); return lost }}
}

// errAgain: what was read is no longer so.
var errAgain = errors.New("decide again")
