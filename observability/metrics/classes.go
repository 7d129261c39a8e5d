package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Classes that are none.
const (
	// OtherClass is what all classes are counted under for which there is no room.
	OtherClass = "_other"

	// UndeclaredClass is what locks are counted under that have no class, see
	// lockguard.Requirement.Class.
	UndeclaredClass = "_undeclared"
)

// DefaultMaxClasses is how many classes have series of their own.
const DefaultMaxClasses = 200

// classes bounds how many classes there are. Who was there first stays.
type classes struct {
	most int

	mu       sync.RWMutex
	known    map[string]bool
	declared map[string]bool
	shared   map[string]bool    // those that are used in shared mode
	pairs    map[[2]string]bool // of a victim and of its preemptor that differ
}

func newClasses(most int) *classes {
	return &classes{
		most: most, known: map[string]bool{}, declared: map[string]bool{}, shared: map[string]bool{},
		pairs: map[[2]string]bool{},
	}
}

// of returns what a class is shown as.
func (c *classes) of(class string) string {
	switch class {
	case "":
		return UndeclaredClass
	case OtherClass, UndeclaredClass:
		return class
	}
	c.mu.RLock()
	known, full := c.known[class], len(c.known) >= c.most
	c.mu.RUnlock()
	if known {
		return class
	}
	if full || priority.CheckClass(class) != nil {
		return OtherClass
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= c.most && !c.known[class] {
		return OtherClass
	}
	c.known[class] = true
	return class
}

// pair returns what a victim's and its preemptor's classes are shown as. Those of one
// lock are nearly always the same one; if not, there are no more pairs than classes.
func (c *classes) pair(victim, preemptor string) (shownVictim, shownPreemptor string) {
	pair := [2]string{c.of(victim), c.of(preemptor)}
	if pair[0] == pair[1] {
		return pair[0], pair[1]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pairs[pair] {
		if len(c.pairs) >= c.most {
			return OtherClass, OtherClass
		}
		c.pairs[pair] = true
	}
	return pair[0], pair[1]
}

// declare notes classes that are shown from the start, and returns those that are
// new.
func (c *classes) declare(all []string) (fresh []string) {
	for _, class := range all {
		if class == "" || c.of(class) != class {
			continue
		}
		c.mu.Lock()
		if !c.declared[class] {
			c.declared[class] = true
			fresh = append(fresh, class)
		}
		c.mu.Unlock()
	}
	return fresh
}

// promised returns the classes that are declared, in order.
func (c *classes) promised() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.declared))
}
