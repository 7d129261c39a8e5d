package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// maxSpooled is how many outcomes wait for ZooKeeper at most.
const maxSpooled = 1024

// A spool puts entries on record one after the other, each until it is.
type spool struct {
	life   context.Context
	append func(context.Context, opstore.AuditEntry) error
	lose   func(opstore.AuditEntry, error)

	mu      sync.Mutex
	queue   []spooled
	running bool
	closing bool
	idle    chan struct{} // closed while nothing is in the queue
}

type spooled struct {
	entry opstore.AuditEntry
	done  chan struct{} // closed when it is on record, or lost
}

func newSpool(
	life context.Context, write func(context.Context, opstore.AuditEntry) error, lose func(opstore.AuditEntry, error),
) *spool {
	s := &spool{life: life, append: write, lose: lose, idle: make(chan struct{})}
	close(s.idle)
	return s
}

var (
	errFull   = fmt.Errorf("%d records wait for ZooKeeper already", maxSpooled)
	errClosed = errors.New("the auditor is closed")
)

// put has an entry put on record. What it returns is closed when that is done,
// or when it never will be.
func (s *spool) put(entry opstore.AuditEntry) <-chan struct{} {
	done := make(chan struct{})
	if err := s.enqueue(spooled{entry, done}); err != nil {
		s.lose(entry, err)
		close(done)
	}
	return done
}

func (s *spool) enqueue(e spooled) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return errClosed
	case len(s.queue) == maxSpooled:
		return errFull
	}
	s.queue = append(s.queue, e)
	if !s.running {
		s.running, s.idle = true, make(chan struct{})
		go s.drain()
	}
	return nil
}

func (s *spool) drain() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running, s.queue = false, nil
			close(s.idle)
			s.mu.Unlock()
			return
		}
		e := s.queue[0]
		s.mu.Unlock()
		if err := s.write(e.entry); err != nil {
			s.lose(e.entry, err)
		}
		close(e.done)
		s.mu.Lock()
		s.queue = s.queue[1:]
		s.mu.Unlock()
	}
}

// write tries until the entry is on record. The error says why it never will be,
// or not before the end.
func (s *spool) write(entry opstore.AuditEntry) error {
	const longest = 5 * time.Second
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, longest) {
		err := s.append(s.life, entry)
		if err == nil || s.life.Err() != nil {
			return err
		}
		if _, unavailable := errors.AsType[*lock.UnavailableError](err); !unavailable {
			return err // it would be so again, or be on record twice
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
			return err
		}
	}
}

// close waits until all is on record, until ctx ends, and takes nothing more.
func (s *spool) close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n > 0 {
		return fmt.Errorf("audit: %d records are not in ZooKeeper, the log has them: %w", n, context.Cause(ctx))
	}
	return nil
}

// wait returns when the queue is empty, which is soon after life has ended.
func (s *spool) wait() {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	<-idle
}
