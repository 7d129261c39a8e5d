package temporal

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// declarations are the locks of types of activities.
type declarations struct {
	mu     sync.RWMutex
	byType map[string]*compiled
}

// add declares the lock of a type, for which there may be none yet.
func (d *declarations) add(activityType string, lock Lock) error {
	c, err := compileFor(activityType, lock)
	if err != nil {
		return err
	}
	if d.of(activityType) != nil {
		return fmt.Errorf("temporal: activity %s is declared twice; declare it once, with Also for more locks", activityType)
	}
	d.set(activityType, c)
	return nil
}

func compileFor(activityType string, lock Lock) (*compiled, error) {
	c, err := lock.compile()
	if err != nil {
		return nil, fmt.Errorf("temporal: the lock of activity %s cannot be: %w", activityType, err)
	}
	return c, nil
}

func (d *declarations) set(activityType string, lock *compiled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byType == nil {
		d.byType = make(map[string]*compiled)
	}
	d.byType[activityType] = lock
}

// of returns the lock of a type; nil: none is declared.
func (d *declarations) of(activityType string) *compiled {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byType[activityType]
}

// cleanup is the longest of all cleanup timeouts.
func (d *declarations) cleanup() time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var longest time.Duration
	for _, lock := range d.byType {
		longest = max(longest, lock.cleanup())
	}
	return longest
}

// lockOf returns the lock that activities of a type need in this worker; nil: none.
func (h *host) lockOf(activityType string) *compiled {
	if lock := h.plugin.declarations.of(activityType); lock != nil {
		return lock
	}
	return h.offers.of(activityType)
}

// likelyLockOf returns what a workflow in this worker knows of the lock that an
// activity needs, which may run in another one.
func (h *host) likelyLockOf(activityType string) *compiled {
	if lock := h.lockOf(activityType); lock != nil {
		return lock
	}
	return h.plugin.offers.of(activityType)
}

// ask takes the locks that an activity struct declares, for this worker: another
// one may have another struct of that type. It panics when they cannot be, as the
// SDK does when an activity cannot be registered.
func (h *host) ask(a any, options activity.RegisterOptions) {
	locker, ok := a.(Locker)
	if !ok {
		if hidden := hiddenLocker(reflect.TypeOf(a), nil); hidden != nil {
			panic(fmt.Errorf("temporal: %T has the activities of %s, but not its method Locks, "+
				"so they would run without their locks: write one that returns the locks of all its activities", a, hidden))
		}
		return
	}
	if !options.SkipInvalidStructFunctions {
		panic(fmt.Errorf("temporal: %T says with Locks which locks its activities need, which is no activity itself: "+
			"register it with activity.RegisterOptions{SkipInvalidStructFunctions: true}", a))
	}
	names := make(map[string]string)
	for method := range reflect.TypeOf(a).Methods() {
		if method.IsExported() && method.Name != "Locks" {
			names[method.Name] = options.Name + method.Name
		}
	}
	if err := h.offer(locker, names); err != nil {
		panic(err)
	}
}

// hiddenLocker returns a Locker that is embedded in a struct which is none, as when
// there are two, of which Go promotes neither's Locks; nil: there is none.
func hiddenLocker(t reflect.Type, seen []reflect.Type) reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || slices.Contains(seen, t) {
		return nil
	}
	for field := range t.Fields() {
		embedded := field.Type
		if !field.Anonymous {
			continue
		}
		if kind := embedded.Kind(); kind != reflect.Pointer && kind != reflect.Interface {
			embedded = reflect.PointerTo(embedded) // the struct is registered by its address
		}
		if embedded.Implements(reflect.TypeFor[Locker]()) {
			return embedded
		}
		if hidden := hiddenLocker(embedded, append(seen, t)); hidden != nil {
			return hidden
		}
	}
	return nil
}

// offer takes the locks of a Locker whose activities have these names, by the
// names of its methods.
func (h *host) offer(locker Locker, activities map[string]string) error {
	var problems []error
	for name, lock := range locker.Locks() {
		activityType, ok := activities[name]
		if !ok && slices.Contains(slices.Collect(maps.Values(activities)), name) {
			activityType, ok = name, true
		}
		if !ok {
			known := slices.Sorted(maps.Keys(activities))
			problems = append(problems, fmt.Errorf("temporal: %T declares a lock for %s, which is none of its activities: %s",
				locker, name, strings.Join(known, ", ")))
			continue
		}
		c, err := compileFor(activityType, lock)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		h.offers.set(activityType, c)
		h.plugin.offers.set(activityType, c)
	}
	return errors.Join(problems...)
}
