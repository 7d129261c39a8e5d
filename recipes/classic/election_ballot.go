package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// latchMark marks the nodes of candidates, as Curator's LeaderLatch does.
var latchMark = mark{text: "latch-"}

// A ballot is one candidate: one call of Run or Campaign. It has one node at a
// time, and one term.
type ballot struct {
	e       *Election
	line    *line
	alone   bool   // a lost term is its last
	stand   *stand // its node; nil: none
	last    *Term
	notices call.Teller[ElectionNotice]
}

func (e *Election) line() *line {
	return &line{c: e.c, label: e.name, path: e.path, naming: NamingCurator, marks: []mark{latchMark}}
}

func (e *Election) ballot(alone bool) *ballot {
	return &ballot{e: e, line: e.line(), alone: alone, notices: call.Teller[ElectionNotice]{Listener: e.o.Notify}}
}

// next returns the candidate's next term.
func (b *ballot) next(ctx context.Context) (*Term, error) {
	return zkclient.Leaving(ctx, b.e.c, b.e.name, func() (*Term, error) {
		t, err := b.campaign(ctx)
		if err != nil && b.stand != nil {
			b.stand.leave()
		}
		return t, err
	}, (*Term).giveUp)
}

func (b *ballot) campaign(ctx context.Context) (*Term, error) {
	if b.last != nil && !b.last.kept() {
		b.stand = nil
	}
	for {
		s, err := b.e.c.Usable(ctx)
		if err != nil {
			return nil, err
		}
		if b.stand == nil || b.stand.s != s { // else it has outlived a disconnect
			b.stand, err = b.line.join(ctx, s, &entry{mark: latchMark, data: []byte(b.e.id)})
		}
		if err == nil {
			err = b.stand.wait(ctx, behindAll, true, nil)
		}
		if err == nil {
			b.last, err = b.begin(ctx)
		}
		switch {
		case err == nil:
			return b.last, nil
		case errors.Is(err, errEvicted), errors.Is(err, zkclient.ErrSessionOver):
			b.stand = nil
		case !errors.Is(err, zkclient.ErrAmbiguous):
			return nil, err
		}
	}
}

// begin makes the first in line the leader.
func (b *ballot) begin(ctx context.Context) (*Term, error) {
	s := b.stand.s
	parent := ctx
	if b.alone { // the campaign's context is about the campaign
		parent = context.WithoutCancel(ctx)
	}
	t := &Term{b: b, s: s, path: b.stand.path, told: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(parent)
	begun := make(chan struct{})
	defer close(begun)
	t.watch = func(zkclient.WatchKind) {
		go func() {
			<-begun // the notice of the term's end comes after that of its beginning
			t.inspect()
		}()
	}
	_, stat, err := s.Look(ctx, t.path, &t.watch)
	if err != nil {
		t.drop()
		if errors.Is(err, zkclient.ErrNoNode) {
			err = errEvicted
		}
		return nil, err
	}
	t.token = lock.Token(stat.Czxid)
	told := make(chan struct{})
	if !b.notices.SendIf(Elected{Term: t}, func() bool { return s.Hold((*termTenant)(t)) }, func() { close(told) }) {
		// Elected, but too late for this session to vouch for.
		t.drop()
		s.Discard(t.path)
		return nil, fmt.Errorf("%w: it was cut off when the candidate was elected", zkclient.ErrSessionOver)
	}
	<-told
	if !s.Usable() {
		s.LoseExposed() // the connection was lost before the term could be told
	}
	return t, nil
}

// leave takes the candidate's node away in the background.
func (b *ballot) leave() {
	if b.stand != nil {
		b.stand.s.Discard(b.stand.path)
	}
}

// candidates reads who stands in line, no more than limit; -1 for all.
func (e *Election) candidates(ctx context.Context, s *zkclient.Session, limit int) ([]Candidate, error) {
	queue, err := e.line().queue(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []Candidate
	for _, t := range queue {
		if len(all) == limit {
			break
		}
		id, stat, err := s.Get(ctx, e.path+"/"+t.name)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			continue // has left meanwhile
		case err != nil:
			return nil, err
		}
		all = append(all, Candidate{
			ID: string(id), Leader: len(all) == 0, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
			Token: lock.Token(stat.Czxid),
		})
	}
	return all, nil
}
