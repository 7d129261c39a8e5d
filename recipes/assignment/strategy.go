package assignment

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// A Strategy decides who holds which lock.
//
// It must be a function of its arguments alone, so that any member can be the
// one that decides. live is sorted; previous may name members that are no
// longer live and locks that are no longer declared. An error, a panic or an
// answer that Validate refuses leaves everything as it is.
type Strategy interface {
	Assign(locks, live []string, previous Assignment, hints Hints) (Assignment, error)
}

// StrategyFunc is a function as Strategy.
type StrategyFunc func(locks, live []string, previous Assignment, hints Hints) (Assignment, error)

// Assign calls f.
func (f StrategyFunc) Assign(locks, live []string, previous Assignment, hints Hints) (Assignment, error) {
	return f(locks, live, previous, hints)
}

// DefaultStrategy is the name of the strategy of a group that names none.
const DefaultStrategy = "balanced"

// Names returns the names that Named knows, the default first.
func Names() []string {
	return []string{DefaultStrategy, "sticky", "weighted", "rendezvous", "mod"}
}

// Named returns a strategy by its name in a configuration file; the default
// one for "". The error lists the names.
func Named(name string) (Strategy, error) {
	switch name {
	case "", DefaultStrategy:
		return Balanced{}, nil
	case "sticky":
		return Sticky{}, nil
	case "weighted":
		return Weighted{}, nil
	case "rendezvous":
		return Rendezvous{}, nil
	case "mod":
		return Mod{}, nil
	}
	return nil, fmt.Errorf("unknown strategy %q; write one of %s", name, strings.Join(Names(), ", "))
}

// Run calls a strategy as every user of one should: with copies of its
// arguments, live sorted and without doubles, and with a check of the answer.
// Without live members it is not called, and there are no holders.
//
// Errors: what Hints.Validate says, the strategy's own, a *PanicError, an
// *InvalidError. There is no assignment then: keep the previous one.
func Run(strategy Strategy, locks, live []string, previous Assignment, hints Hints) (Assignment, error) {
	if strategy == nil {
		return nil, errors.New("no strategy; take one of package assignment or write one")
	}
	if err := hints.Validate(); err != nil {
		return nil, err
	}
	if len(live) == 0 {
		return Assignment{}, nil
	}
	live = slices.Compact(slices.Sorted(slices.Values(live)))
	next, err := call(strategy, slices.Clone(locks), slices.Clone(live), previous.Clone(), hints.clone())
	if err != nil {
		return nil, err
	}
	if err := Validate(next, locks, live, hints); err != nil {
		return nil, err
	}
	return next.normal(), nil
}

// PanicError is returned by Run for a strategy that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("strategy panicked: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the error that the strategy panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func call(strategy Strategy, locks, live []string, previous Assignment, hints Hints) (next Assignment, err error) {
	defer func() {
		if value := recover(); value != nil {
			next, err = nil, &PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	next, err = strategy.Assign(locks, live, previous, hints)
	if err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
	}
	return next, nil
}
