package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// clockAhead is how far this machine's clock is ahead of ZooKeeper's, or behind it
// (negative): 0 when that is no more than ticks tolerate, or not known.
func clockAhead(ledger *ticks.Ledger) time.Duration {
	server, ok := ledger.ServerTime()
	if !ok {
		return 0
	}
	if by := server.Ahead(time.Now().Round(0)); by.Abs() > ticks.Tolerance {
		return by
	}
	return 0
}

// clockProblem says what is wrong with this machine's clock, nil for nothing.
func clockProblem(ledger *ticks.Ledger) error {
	if by := clockAhead(ledger); by != 0 {
		return errors.New(clockWords("this machine's clock is", by) +
			"; set it right, or that of ZooKeeper's leader: lockkeeper doctor compares them")
	}
	return nil
}

// clockWords says how far a clock is off, and what follows for ticks.
func clockWords(whose string, by time.Duration) string {
	if by > 0 {
		return fmt.Sprintf("%s %s ahead of ZooKeeper's: ticks go by ZooKeeper's", whose, human(by))
	}
	return fmt.Sprintf("%s %s behind ZooKeeper's: ticks that no other daemon runs are late by that much",
		whose, human(-by))
}
