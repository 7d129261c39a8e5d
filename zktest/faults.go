package zktest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// faults are the rules, partitions and trace of a Server or Proxy, for all its
// gates. Locks are taken in this order: the server's, a gate's, this one.
type faults struct {
	trace *trace

	rules      atomic.Pointer[[]*Rule]      // in force, in order; never changed, only replaced
	partitions atomic.Pointer[[]*partition] // likewise
	stopped    atomic.Bool                  // the process stands still: nothing passes

	mu      sync.Mutex
	made    []*Rule // all that On has returned
	parted  []*partition
	gates   map[*gate]struct{}
	opened  int
	changed chan struct{} // closed and replaced when a partition is healed
}

// partition is what one name of a call to Partition stands for.
type partition struct {
	name  string // "" for all
	where string
	met   atomic.Bool // a connection that it concerns
}

func newFaults() *faults {
	return &faults{trace: newTrace(), gates: map[*gate]struct{}{}, changed: make(chan struct{})}
}

// open makes the gate of a new connection; names are those of its listener and
// dialer. The gate calls, one at a time and in order for each direction,
// without a lock of its own:
//
//   - deliver with each frame of the client that is let through, without its
//     length, and with nil when the client has hung up and the server may know.
//     It may take the server's lock.
//   - send with each frame that is let through to the client. It is called
//     inside outbound too, hence with the server's lock held: it must neither
//     take it nor wait.
//   - cut, under the same terms as send, once a rule cuts the connection:
//     what was sent before should arrive, nothing else will be sent, and of
//     deliver only nil is to come.
func (f *faults) open(names []string, deliver, send func([]byte), cut func()) *gate {
	g := &gate{faults: f, names: names, from: fromText(names), deliver: deliver, send: send, cut: cut}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	g.number = f.opened
	f.gates[g] = struct{}{}
	return g
}

func (f *faults) forget(g *gate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.gates, g)
}

// on makes a rule without an action. Its caller is the exported On, whose
// caller is named when the rule never fires.
func (f *faults) on(m Match) *Fault {
	r := &Rule{faults: f, match: m, where: callerOfExported(), reached: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, r)
	return &Fault{rule: r}
}

// enact puts a rule into force.
func (f *faults) enact(r *Rule, action Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.verb != idle {
		panic(fmt.Sprintf("zktest: %s: there is an action already: %s", action.name, r))
	}
	r.name, r.verb, r.delay, r.code = action.name, action.verb, action.delay, action.code
	r.onReply, r.onEvent = action.onReply, action.onEvent
	f.replaceRules(func(rules []*Rule) []*Rule {
		// Those that wait for their action come later than they were set.
		at, _ := slices.BinarySearchFunc(rules, r, func(a, b *Rule) int {
			return cmp.Compare(slices.Index(f.made, a), slices.Index(f.made, b))
		})
		return slices.Insert(rules, at, r)
	})
}

// retire takes a rule that will match no more out of the way.
func (f *faults) retire(r *Rule) {
	f.replaceRules(func(rules []*Rule) []*Rule {
		return slices.DeleteFunc(rules, func(other *Rule) bool { return other == r })
	})
}

func (f *faults) replaceRules(change func([]*Rule) []*Rule) {
	var rules []*Rule
	if old := f.rules.Load(); old != nil {
		rules = slices.Clone(*old)
	}
	if rules = change(rules); len(rules) == 0 {
		f.rules.Store(nil)
		return
	}
	f.rules.Store(&rules)
}

func (f *faults) endRule(r *Rule, removed bool) {
	f.mu.Lock()
	r.over = true
	r.removed = r.removed || removed
	waiting := r.waiting
	r.waiting = nil
	f.retire(r)
	f.mu.Unlock()
	for _, g := range waiting {
		g.resume()
	}
}

// judge returns the rule that acts on a request, or nil. Every rule counts what
// it matches.
func (f *faults) judge(matches func(*Rule) bool) *Rule {
	rules := f.rules.Load()
	if rules == nil {
		return nil
	}
	var first *Rule
	for _, r := range *rules {
		if matches(r) && r.count() && first == nil {
			first = r
		}
	}
	return first
}

// idle tells that no rule is in force.
func (f *faults) idle() bool { return f.rules.Load() == nil }

// partition lets nothing pass any more from and to the connections that have
// one of the names; no name is all connections.
func (f *faults) partition(names ...string) {
	where := callerOfExported()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(names) == 0 {
		names = []string{""}
	}
	var current []*partition
	if old := f.partitions.Load(); old != nil {
		current = slices.Clone(*old)
	}
	for _, name := range names {
		p := &partition{name: name, where: where}
		for g := range f.gates {
			p.concerns(g.names)
		}
		current = append(current, p)
		f.parted = append(f.parted, p)
	}
	f.partitions.Store(&current)
}

// heal ends the partitions of the names; no name ends all. What was kept goes
// on its way, the oldest connection first.
func (f *faults) heal(names ...string) {
	f.mu.Lock()
	var left []*partition
	if old := f.partitions.Load(); old != nil && len(names) > 0 {
		left = slices.DeleteFunc(slices.Clone(*old), func(p *partition) bool { return slices.Contains(names, p.name) })
	}
	if len(left) == 0 {
		f.partitions.Store(nil)
	} else {
		f.partitions.Store(&left)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	f.resume()
}

// resume lets pass what waits no more, the oldest connection first.
func (f *faults) resume() {
	f.mu.Lock()
	gates := f.byAge()
	f.mu.Unlock()
	for _, g := range gates {
		g.resume()
	}
}

// partitioned tells whether a partition concerns connections of these names.
func (f *faults) partitioned(names []string) bool {
	partitions := f.partitions.Load()
	return partitions != nil && slices.ContainsFunc(*partitions, func(p *partition) bool { return p.concerns(names) })
}

// reachable waits until no partition concerns connections of these names, or
// ctx ends.
func (f *faults) reachable(ctx context.Context, names ...string) error {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if !f.partitioned(names) {
			return context.Cause(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *partition) concerns(names []string) bool {
	if p.name != "" && !slices.Contains(names, p.name) {
		return false
	}
	if !p.met.Load() {
		p.met.Store(true)
	}
	return true
}

// disconnect cuts the connections of a session and reports whether there were
// any.
func (f *faults) disconnect(session int64) bool {
	f.mu.Lock()
	gates := f.byAge()
	f.mu.Unlock()
	found := false
	for _, g := range gates {
		if g.belongsTo(session) {
			found = true
			g.sever()
		}
	}
	return found
}

func (f *faults) byAge() []*gate {
	return slices.SortedFunc(maps.Keys(f.gates), func(a, b *gate) int { return cmp.Compare(a.number, b.number) })
}

// unfired describes what was to happen and has not: rules that never acted,
// matches without an action, partitions without a connection.
func (f *faults) unfired() []string {
	list := f.unfiredRules()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parted {
		if !p.met.Load() {
			list = append(list, fmt.Sprintf("Partition(%q) at %s: no connection had the name", p.name, p.where))
		}
	}
	return list
}

func (f *faults) unfiredRules() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, r := range f.made {
		switch {
		case r.removed || r.fired > 0:
		case r.verb == idle:
			list = append(list, r.String()+" has no action, such as DropReply")
		default:
			list = append(list, fmt.Sprintf("%s never fired; %d matched", r, r.matched))
		}
	}
	return list
}

// callerOfExported returns the file and line from which the exported function
// was called that called its caller.
func callerOfExported() string {
	_, file, line, ok := runtime.Caller(3)
	if !ok {
		return "an unknown place"
	}
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}
