package main

import (
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A store has the orders, and is fenced: it refuses a token that is older than
// one it has seen.
type store struct {
	mu      sync.Mutex
	newest  lockguard.Token
	frozen  bool
	copied  int // batches in the new shard
	shard   string
	repairs int
}

func newStore() *store { return &store{shard: "old"} }

// as is the store for the holder of a token.
func (s *store) as(token lockguard.Token, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.newest {
		return fmt.Errorf("token %s is older than %s: somebody else has had the lock since", token, s.newest)
	}
	s.newest = token
	return change()
}

func (s *store) freeze(token lockguard.Token, frozen bool) error {
	return s.as(token, func() error { s.frozen = frozen; return nil })
}

// copy copies one batch.
func (s *store) copy(token lockguard.Token) error {
	return s.as(token, func() error {
		if !s.frozen {
			return fmt.Errorf("orders are still written to the old shard")
		}
		s.copied++
		return nil
	})
}

// discard forgets what was copied.
func (s *store) discard(token lockguard.Token) (batches int, err error) {
	err = s.as(token, func() error { batches, s.copied = s.copied, 0; return nil })
	return batches, err
}

// move makes the new shard the one.
func (s *store) move(token lockguard.Token) error {
	return s.as(token, func() error {
		if s.copied != batches {
			return fmt.Errorf("%d of %d batches are copied", s.copied, batches)
		}
		s.shard = "new"
		return nil
	})
}

// repair needs orders that are not being moved.
func (s *store) repair(token lockguard.Token) error {
	return s.as(token, func() error {
		if s.frozen || s.copied > 0 && s.shard == "old" {
			return fmt.Errorf("a migration is half done")
		}
		s.repairs++
		return nil
	})
}

// state is for people.
func (s *store) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("orders on the %s shard, %d batches copied, writes frozen: %t, repairs: %d",
		s.shard, s.copied, s.frozen, s.repairs)
}
