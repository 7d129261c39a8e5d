package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A script is a Source that tells what a test says, in a bubble of virtual time
// that begins at midnight. It plays ZooKeeper: it counts transactions, and knows
// the states of all locks.
type script struct {
	t     *testing.T
	board *Board
	told  chan lock.Sighting
	start time.Time
	stop  func()

	zxid   lock.Token
	states map[string]*lock.State
	moved  map[string]lock.Token // of each lock: when a request came or went last
	grants map[string]int32      // likewise, how many
}

func (s *script) Run(ctx context.Context, seen func(lock.Sighting)) error {
	for {
		select {
		case x := <-s.told:
			seen(x)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// play runs a test with a board that has seen an empty tree.
func play(t *testing.T, keep Keep, f func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, keep)
		s.sync()
		f(t, s)
	})
}

func newScript(t *testing.T, keep Keep) *script {
	t.Helper()
	s := &script{
		t: t, told: make(chan lock.Sighting), start: time.Now(), zxid: 100, states: map[string]*lock.State{},
		moved: map[string]lock.Token{}, grants: map[string]int32{},
	}
	var err error
	s.board, err = New(Options{Source: s, Now: time.Now, Keep: keep})
	require.NoError(t, err)
	t.Cleanup(func() { s.stop() })
	s.run()
	return s
}

// run makes the board look, until stop.
func (s *script) run() {
	ctx, cancel := context.WithCancel(s.t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = s.board.Run(ctx) })
	s.stop = func() { cancel(); work.Wait() }
}

func (s *script) sync()                { s.told <- lock.Sighting{Synced: true}; s.settle() }
func (s *script) wait(d time.Duration) { time.Sleep(d); synctest.Wait() }
func (s *script) settle()              { s.wait(mostPause) }
func (s *script) second(n float64) {
	s.wait(time.Until(s.start.Add(time.Duration(n * float64(time.Second)))))
}

func (s *script) moment(t time.Time) string {
	return fmt.Sprint(t.Sub(s.start).Round(time.Millisecond))
}

func (s *script) lock(scope string) *lock.State {
	l := s.states[scope]
	if l == nil {
		l = &lock.State{Scope: scope}
		s.states[scope] = l
	}
	return l
}

// tell tells the state of a lock.
func (s *script) tell(scope string) {
	l := *s.lock(scope)
	l.At = time.Now()
	if len(l.Holders)+len(l.Waiters)+len(l.Delays) == 0 {
		l.At = time.Time{}
	}
	l.Holders, l.Waiters = slices.Clone(l.Holders), slices.Clone(l.Waiters)
	for i := range l.Waiters {
		l.Waiters[i].Position = i + 1
	}
	for i := range l.Holders {
		h := &l.Holders[i]
		h.LeaseLeft = max(0, h.LeaseTimeout-time.Since(h.Since))
	}
	s.told <- lock.Sighting{State: l, Moved: s.moved[scope], Version: s.grants[scope]}
	synctest.Wait()
}

func request(id string, change ...func(*lock.Contender)) lock.Contender {
	c := lock.Contender{ID: id, Identity: priority.Identity{Owner: id, Host: "host-" + id, PID: 7}, Terms: priority.Terms{LeaseTimeout: time.Hour}, Joined: time.Now()}
	for _, f := range change {
		f(&c)
	}
	return c
}

func level(l priority.Level) func(*lock.Contender) {
	return func(c *lock.Contender) { c.Priority = l }
}
func forcefully(c *lock.Contender) { c.Forceful = true }
func under(ids ...string) func(*lock.Contender) {
	return func(c *lock.Contender) { c.Under = ids }
}

func holdFor(lease time.Duration) func(*lock.Contender) {
	return func(c *lock.Contender) { c.LeaseTimeout = lease }
}

func (s *script) grant(l *lock.State, c lock.Contender) {
	c.Token, c.Since = s.zxid, time.Now()
	s.grants[l.Scope]++
	l.Holders = append(l.Holders, c)
}

// acquire is the fast way.
func (s *script) acquire(scope, id string, change ...func(*lock.Contender)) {
	s.zxid++
	s.moved[scope] = s.zxid
	s.grant(s.lock(scope), request(id, change...))
	s.tell(scope)
}

func (s *script) join(scope, id string, change ...func(*lock.Contender)) {
	s.zxid++
	s.moved[scope] = s.zxid
	l := s.lock(scope)
	l.Waiters = append(l.Waiters, request(id, change...))
	slices.SortStableFunc(l.Waiters, func(a, b lock.Contender) int { return int(b.Priority) - int(a.Priority) })
	s.tell(scope)
}

func remove(all *[]lock.Contender, id string) (lock.Contender, bool) {
	i := slices.IndexFunc(*all, func(c lock.Contender) bool { return c.ID == id })
	if i < 0 {
		return lock.Contender{}, false
	}
	c := (*all)[i]
	*all = slices.Delete(slices.Clone(*all), i, i+1)
	return c, true
}

// leave: a waiter goes, or a holder without a successor.
func (s *script) leave(scope, id string) {
	l := s.lock(scope)
	s.zxid++
	s.moved[scope] = s.zxid
	if _, ok := remove(&l.Waiters, id); !ok {
		remove(&l.Holders, id)
	}
	s.unask(l, id)
	s.tell(scope)
}

func (s *script) unask(l *lock.State, id string) {
	for i := range l.Holders {
		h := &l.Holders[i]
		h.PreemptedBy = slices.DeleteFunc(slices.Clone(h.PreemptedBy), func(n lock.Preemptor) bool { return n.ID == id })
	}
}

// handOver: the holder goes, the first waiter has the lock.
func (s *script) handOver(scope, id string) {
	l := s.lock(scope)
	s.zxid++
	s.moved[scope] = s.zxid
	remove(&l.Holders, id)
	s.grantFirst(l)
	s.tell(scope)
}

// passOn: the holder's node is another's of its process.
func (s *script) passOn(scope, id, owner string) {
	l := s.lock(scope)
	s.zxid++
	s.grants[scope]++
	for i := range l.Holders {
		if h := &l.Holders[i]; h.ID == id {
			h.Owner, h.Token, h.Since = owner, s.zxid, time.Now()
		}
	}
	s.tell(scope)
}

func (s *script) grantFirst(l *lock.State) {
	first := l.Waiters[0]
	remove(&l.Waiters, first.ID)
	s.unask(l, first.ID)
	s.grant(l, first)
}

// die: the session of a holder ends; then the first waiter, if there is one, takes
// the free lock.
func (s *script) die(scope, id string, delay time.Duration) {
	l := s.lock(scope)
	s.zxid++
	s.moved[scope] = s.zxid
	h, _ := remove(&l.Holders, id)
	if delay > 0 {
		l.Delays = append(l.Delays, lock.Delay{ID: id, Owner: h.Owner, LockDelay: delay, Since: time.Now(), Until: time.Now().Add(delay)})
	} else if len(l.Waiters) > 0 {
		s.zxid++
		s.grantFirst(l)
	}
	s.tell(scope)
}

func (s *script) ask(scope, id, by string, reason priority.Reason, grace time.Duration) {
	l := s.lock(scope)
	s.zxid++
	i := slices.IndexFunc(l.Waiters, func(c lock.Contender) bool { return c.ID == by })
	w := l.Waiters[i]
	for j := range l.Holders {
		if h := &l.Holders[j]; h.ID == id {
			h.PreemptedBy = append(slices.Clone(h.PreemptedBy), lock.Preemptor{
				ID: w.ID, Owner: w.Owner, Priority: w.Priority, Reason: reason, Forceful: w.Forceful, Grace: grace, At: time.Now(),
			})
		}
	}
	s.tell(scope)
}

func (s *script) takeOver(scope, id string, reason priority.Reason) {
	l := s.lock(scope)
	s.zxid++
	s.moved[scope] = s.zxid
	h, _ := remove(&l.Holders, id)
	l.Evicted = append(slices.Clone(l.Evicted), lock.Eviction{ID: id, Owner: h.Owner, By: l.Waiters[0].Owner, Reason: reason, At: time.Now()})
	s.grantFirst(l)
	s.tell(scope)
}

func (s *script) breakLock(scope, id, by, why string) {
	l := s.lock(scope)
	s.zxid++
	s.moved[scope] = s.zxid
	h, _ := remove(&l.Holders, id)
	l.Evicted = append(slices.Clone(l.Evicted), lock.Eviction{ID: id, Owner: h.Owner, By: by, Why: why, At: time.Now()})
	s.tell(scope)
}

// story draws a timeline, and what happened, as text.
func (s *script) story(scope string) string {
	var b strings.Builder
	line := s.board.Timeline(scope, time.Time{}, time.Time{})
	for _, r := range line.Rows {
		fmt.Fprintf(&b, "%s:", r.ID)
		for _, spell := range r.Spells {
			to := "…"
			if !spell.To.IsZero() {
				to = s.moment(spell.To)
			}
			fmt.Fprintf(&b, " %s %s-%s", spell.Kind, s.moment(spell.From), to)
			if spell.End != "" {
				fmt.Fprintf(&b, " %s", spell.End)
			}
			b.WriteString(";")
		}
		b.WriteString("\n")
	}
	for _, m := range line.Marks {
		fmt.Fprintf(&b, "%s %s %s>%s\n", s.moment(m.At), m.Kind, m.From, m.To)
	}
	return b.String()
}

// events draws the stream.
func (s *script) events() []string {
	var lines []string
	for _, e := range s.board.Entries(0, 0) {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", s.moment(e.At), e.Kind, e.Scope, e.Text))
	}
	return lines
}

func skipped() lockguard.Event {
	return lockguard.Event{Notice: lockguard.Skipped{Job: "nightly", Reason: "overlap"}}
}
