package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A player takes one lock after the other.
type player struct {
	w      *worker
	number int
	turns  int
	rand   *rand.Rand
	lock   int // of the last turn
}

func (p *player) play() {
	for !p.w.isDraining() {
		if p.rand.IntN(100) < 30 { // the same one at once, as in a tight loop
			p.turn()
			continue
		}
		p.lock = p.rand.IntN(p.w.settings.Scopes)
		p.turn()
		p.w.pause(time.Duration(p.rand.Int64N(int64(40 * float64(time.Millisecond) * p.w.settings.Tempo))))
	}
}

// turn makes one request and, if it is granted, works under the lock.
func (p *player) turn() {
	p.turns++
	w := draw(p.rand, p.w.settings.Tempo, p.w.settings.Readers, p.w.settings.Calm)
	v := &visit{
		w: p.w, wish: w, who: fmt.Sprintf("%s/%d.%d", p.w.settings.Client, p.number, p.turns),
		scope: p.w.settings.scope(p.lock), shared: w.request.Mode == priority.Shared,
		asked: make(chan time.Time, 16), lost: make(chan struct{}), risk: make(chan struct{}, 1), rand: p.rand,
	}
	v.wish.request.Owner = v.who
	v.file = p.w.settings.file(v.scope)
	v.tell(history.Event{
		Kind: history.Invoked, Shared: v.shared, Guarded: w.guarded, Priority: int32(w.request.Priority), Terms: w.String(),
		Request: w.asked(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.giveUp > 0 {
		timer := time.AfterFunc(w.giveUp, cancel)
		defer timer.Stop()
	}
	if w.guarded {
		v.guarded(ctx)
	} else {
		v.plain(ctx)
	}
}

// plain takes the lock by package lock.
func (v *visit) plain(ctx context.Context) {
	lock, err := v.w.client.PriorityLock(v.scope)
	if err != nil {
		v.tell(history.Event{Kind: history.Failed, Reason: answer(err), Err: text(err)})
		return
	}
	v.wish.request.Notify = v.notice
	grant, err := lock.Acquire(ctx, v.wish.request)
	if err != nil {
		v.tell(history.Event{Kind: history.Failed, Reason: answer(err), Err: text(err)})
		return
	}
	v.tell(history.Event{Kind: history.Granted})
	v.hold = grant
	if token, err := grant.Token(context.Background()); err == nil {
		v.token = int64(token)
		v.tell(history.Event{Kind: history.Tokened, Token: v.token})
		v.work(v.lost)
	}
	release, cancel := context.WithCancel(context.Background())
	defer cancel()
	if v.wish.hasty {
		cancel()
	}
	v.tell(history.Event{Kind: history.Releasing})
	err = grant.Release(release)
	v.tell(history.Event{Kind: history.Released, Reason: answer(err), Err: text(err)})
	v.haunt(err)
}

// notice records a notice of the request.
func (v *visit) notice(n lock.Notice) {
	at := history.Now()
	switch n := n.(type) {
	case lock.PreemptRequested:
		v.askedToGo(at, n.By.Owner, string(n.Reason), n.Grace, n.Deadline)
	case lock.PreemptionWithdrawn:
		v.tell(history.Event{At: at, Kind: history.Withdrawn})
	case lock.TakenOver:
		v.tookOver(at, n.From)
	case lock.Lost:
		v.tell(history.Event{At: at, Kind: history.Lost, Reason: string(n.Err.Reason), By: n.Err.By, Err: text(n.Err.Err)})
		close(v.lost)
	case lock.Requeued:
		v.tell(history.Event{At: at, Kind: history.Requeued, Err: text(n.Cause)})
	case lock.Queued:
		v.tell(history.Event{At: at, Kind: history.Queued})
	case lock.Displaced, lock.Revised, lock.CleanupPending, lock.PendingOver,
		lock.PreemptSent:
	case lock.AtRisk:
		v.atRisk()
	}
}

// visitKey is that of the visit in the context of a guarded one.
type visitKey struct{}

// guarded takes the lock by package lockguard.
func (v *visit) guarded(ctx context.Context) {
	granted, over := false, make(chan struct{})
	defer close(over)
	var hooks []lockguard.Hook
	if v.wish.request.CleanupTimeout > 0 {
		hooks = append(hooks, v.cleanUp)
	}
	err := v.w.guard.Do(context.WithValue(ctx, visitKey{}, v), v.wish.requirement(v.scope),
		func(ctx context.Context) error {
			v.tell(history.Event{Kind: history.Granted})
			granted = true
			hold, _ := lockguard.FromContext(ctx)
			v.hold, v.token, v.ctx = hold, int64(hold.Token()), ctx
			v.tell(history.Event{Kind: history.Tokened, Token: v.token})
			go v.awaitLoss(ctx, hold, over)
			v.work(v.lost)
			v.tell(history.Event{Kind: history.Done})
			return nil
		}, hooks...)
	if !granted {
		v.tell(history.Event{Kind: history.Failed, Reason: answer(err), Err: text(err)})
		return
	}
	v.tell(history.Event{Kind: history.Released, Reason: answer(err), Err: text(err)})
	v.haunt(err)
}

// cleanUp is the hook of a guarded visit: it goes on working.
func (v *visit) cleanUp(ctx context.Context) error {
	hold, _ := lockguard.FromContext(ctx)
	for range 1 + v.rand.IntN(4) {
		select {
		case <-hold.Lost():
			return nil // told by awaitLoss
		default:
		}
		v.use(false)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(v.rand.Int64N(int64(v.wish.request.CleanupTimeout/2) + 1))):
		}
	}
	v.tell(history.Event{Kind: history.Done})
	return nil
}

// awaitLoss writes down that the lock is lost. A user of package lockguard knows
// that when the context of the work has ended as well.
func (v *visit) awaitLoss(ctx context.Context, hold *lockguard.Hold, over <-chan struct{}) {
	for _, told := range []<-chan struct{}{hold.Lost(), ctx.Done()} {
		select {
		case <-told:
		case <-over: // what is lost now has been given back
			return
		}
	}
	at := history.Now()
	lost := new(lockguard.LostError)
	if !errors.As(hold.Check(), &lost) {
		lost.Reason = "found out by the release"
	}
	v.tell(history.Event{At: at, Kind: history.Lost, Reason: string(lost.Reason), By: lost.By, Err: text(lost.Err)})
	close(v.lost)
}

// observe writes down what package lockguard tells of a visit.
func (w *worker) observe(ctx context.Context, event lockguard.Event) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return
	}
	switch e := event.Notice.(type) {
	case lock.PreemptRequested:
		v.askedToGo(history.Now(), e.By.Owner, string(e.Reason), e.Grace, e.Deadline)
	case lock.PreemptionWithdrawn:
		v.tell(history.Event{Kind: history.Withdrawn})
	case lock.AtRisk:
		v.atRisk()
	case lock.Queued:
		v.tell(history.Event{Kind: history.Queued})
	case lock.Requeued:
		v.tell(history.Event{Kind: history.Requeued, Err: text(e.Cause)})
	case lock.TakenOver:
		v.tookOver(history.Now(), e.From)
	default: // the rest is written down where it happens
	}
}
