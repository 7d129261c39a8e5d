package temporaltesting

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// T is the part of testing.TB that New needs.
type T interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Logf(format string, args ...any)
}

// Locks are the locks of one test: a ZooKeeper in memory, a Guard for the worker
// under test, and rivals that want the same locks. All methods are safe for
// concurrent use; they can be called by the test, by callbacks of an environment,
// and by activities, fakes of what they need included.
//
// Methods that make something happen return when it has happened, and the
// holder of the lock knows. What does not happen within 30s of real time fails the
// test, with the holders of the lock and its waiters.
type Locks struct {
	t       T
	server  *zktest.Server
	tracker *tracker
	guard   *lockguard.Guard // of the worker
	rivals  *lockguard.Guard
	client  *lock.Client    // of the rivals
	ctx     context.Context // ends with the test

	mu     sync.Mutex
	hooks  []hook // see During
	others sync.WaitGroup
}

// workerName is that of the worker's sessions.
const workerName = "worker"

// New returns Locks that end with the test. The options are for the Guard of the
// worker. When the test fails, it logs every step of every lock.
func New(t T, options ...lockguard.Option) *Locks {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	l := &Locks{t: t, server: zktest.RunT(t, zktest.Pipe()), tracker: newTracker(), ctx: ctx}
	_, l.guard = l.newGuard(workerName, false, options...)
	l.client, l.rivals = l.newGuard("rival", true)
	t.Cleanup(func() {
		if story := l.story(); t.Failed() && story != "" {
			t.Logf("what happened to the locks:\n%s", story)
		}
		end()
		l.others.Wait()
	})
	return l
}

func (l *Locks) newGuard(name string, rival bool, options ...lockguard.Option) (*lock.Client, *lockguard.Guard) {
	l.t.Helper()
	client, err := lock.NewClient(lock.Config{
		Dialer: l.server.Dialer(name),
		Auth:   &lock.Digest{User: "test", Password: "test"}, // who breaks a lock has to be somebody
	})
	if err != nil {
		l.t.Fatalf("temporaltesting: %v", err)
	}
	l.t.Cleanup(func() { l.close(client, name) })
	options = append(slices.Clip(options), lockguard.WithObserver(l.tracker.observer(rival)))
	guard, err := lockguard.New(client, options...)
	if err != nil {
		l.t.Fatalf("temporaltesting: %v", err)
	}
	return client, guard
}

// close ends a session. What is still held is lost first: a workflow that has
// continued as new leaves its lock to a next run that may never come.
func (l *Locks) close(client *lock.Client, name string) {
	deadline, pause := time.Now().Add(patience), time.Millisecond
	for {
		err := client.Close(context.Background())
		switch {
		case err == nil:
			return
		case !errors.As(err, new(*lock.BusyError)), time.Now().After(deadline):
			l.t.Errorf("temporaltesting: %v", err)
			return
		}
		l.expire(name)
		timer := time.NewTimer(pause)
		<-timer.C
		pause = min(2*pause, time.Second)
	}
}

// Guard is that of the worker under test, for code that takes locks without
// Temporal as well.
func (l *Locks) Guard() *lockguard.Guard { return l.guard }

// Server is the ZooKeeper, for faults: zktest has many.
func (l *Locks) Server() *zktest.Server { return l.server }

// Plugin returns a plugin as it goes into production, but for the locks that it
// takes. SetUpActivities and SetUpWorkflows install one by themselves.
func (l *Locks) Plugin(options ...temporal.PluginOption) *temporal.Plugin {
	l.t.Helper()
	p, err := temporal.NewPlugin(l.guard, options...)
	if err != nil {
		l.t.Fatalf("temporaltesting: %v", err)
	}
	return p
}

// Events returns every step so far of the lock of a scope, by rivals too. "": of
// all scopes.
func (l *Locks) Events(scope string) []lockguard.Event {
	l.tracker.mu.Lock()
	defer l.tracker.mu.Unlock()
	var events []lockguard.Event
	for _, e := range l.tracker.events {
		if scope == "" || e.Scope == scope {
			events = append(events, e)
		}
	}
	return events
}

// AwaitHeld waits until the code under test holds the lock of a scope, and
// returns who has it: the members of a workflow's hold have one token.
func (l *Locks) AwaitHeld(scope string) lockguard.Subject {
	l.t.Helper()
	return l.awaitOne(scope, held, "the lock %q is held by an activity or a workflow")
}

// AwaitWaiting waits until the code under test waits for the lock of a scope,
// behind somebody.
func (l *Locks) AwaitWaiting(scope string) lockguard.Subject {
	l.t.Helper()
	return l.awaitOne(scope, queued, "an activity or a workflow waits for the lock %q")
}

func (l *Locks) awaitOne(scope string, p phase, what string) (found lockguard.Subject) {
	l.t.Helper()
	l.await(scope, fmt.Sprintf(what, scope), func() bool {
		for _, r := range l.tracker.ofLocked(scope, p) {
			if !r.rival {
				found = r.about
				return true
			}
		}
		return false
	})
	return found
}

// AwaitFree waits until the lock of a scope has no holder and no waiter.
func (l *Locks) AwaitFree(scope string) {
	l.t.Helper()
	l.await(scope, fmt.Sprintf("the lock %q is free", scope), func() bool {
		return len(l.tracker.ofLocked(scope, held))+len(l.tracker.ofLocked(scope, queued))+
			len(l.tracker.ofLocked(scope, asking)) == 0
	})
}

// Token waits until the code under test holds the lock of a scope, and returns its
// fencing token.
func (l *Locks) Token(scope string) lockguard.Token {
	l.t.Helper()
	return l.AwaitHeld(scope).Token
}

// WhenHeld calls f in another goroutine as soon as the code under test holds the
// lock of a scope; the test waits for it. For something to happen at a certain
// place in an activity, see During.
func (l *Locks) WhenHeld(scope string, f func()) {
	l.others.Go(func() {
		if l.tracker.await(l.ctx, func() bool { return l.anyLocked(scope, held) }) == nil {
			f()
		}
	})
}

// WhenWaiting calls f in another goroutine as soon as the code under test waits for
// the lock of a scope, behind somebody; the test waits for it.
func (l *Locks) WhenWaiting(scope string, f func()) {
	l.others.Go(func() {
		if l.tracker.await(l.ctx, func() bool { return l.anyLocked(scope, queued) }) == nil {
			f()
		}
	})
}

func (l *Locks) anyLocked(scope string, p phase) bool {
	return slices.ContainsFunc(l.tracker.ofLocked(scope, p), func(r *request) bool { return !r.rival })
}

// await fails the test when condition does not become true.
func (l *Locks) await(scope, what string, condition func() bool) {
	l.t.Helper()
	if err := l.tracker.await(l.ctx, condition); err != nil {
		l.t.Fatalf("temporaltesting: %s: %v; now: %s", what, err, l.tracker.now(scope))
	}
}

// settle waits until nothing is on its way.
func (l *Locks) settle(scope string) {
	l.t.Helper()
	l.await(scope, fmt.Sprintf("all processes know who has the lock %q", scope), func() bool {
		return l.tracker.isSettledLocked(scope)
	})
}

// story is all events, a line each.
func (l *Locks) story() string {
	var b strings.Builder
	for _, e := range l.Events("") {
		about := e.Subject
		fmt.Fprintf(&b, "%s %-20s %q by %q, priority %d, token %d", about.At.Format("15:04:05.000"),
			reflect.TypeOf(e.Notice).Name(), about.Scope, about.Owner, about.Priority, about.Token)
		switch e := e.Notice.(type) {
		case lock.PreemptRequested:
			fmt.Fprintf(&b, ": by %q", e.By.Owner)
		case lockguard.NotAcquired:
			fmt.Fprintf(&b, ": %v", e.Err)
		case lockguard.Lost:
			fmt.Fprintf(&b, ": %v", e.Err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
