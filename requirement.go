package lockkeeper

import (
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A Requirement declares the lock that a piece of work needs: its scope, its owner and
// its Terms. Only Scope has to be set.
type Requirement = lockguard.Requirement

// Terms are what a Requirement declares beside its scope: priority, mode, forceful, the
// timeouts, min runtime, lock delay, preempt delta. The zero value asks for the
// exclusive lock at the lowest priority, for as long as the context lives.
type Terms = priority.Terms

// A Level is a priority: 0 is the lowest and the default, larger is more important.
type Level = priority.Level

// A Mode says with which holders a holder shares the lock.
type Mode = priority.Mode

// The modes.
const (
	Exclusive = priority.Exclusive // alone; the default
	Shared    = priority.Shared    // together with other shared holders
)
