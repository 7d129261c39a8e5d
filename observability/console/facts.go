package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Facts are what pages show beside locks: each is a function that looks when
// somebody does. nil: that is not known here, and the page says so. Beside what
// could be read, lists name the nodes that could not.
type Facts struct {
	// Approvals are the questions that wait for a decision.
	Approvals func(ctx context.Context) ([]views.Approval, []lock.Unreadable, error)

	// Audit are records, the oldest first.
	Audit func(ctx context.Context, q opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error)

	// Frozen are the requests that overrides keep out of the queues of their locks,
	// the longest first.
	Frozen func(ctx context.Context) ([]lock.FrozenRequest, []lock.Unreadable, error)

	// Groups are all lock groups, by name.
	Groups func(ctx context.Context) ([]views.Group, []lock.Unreadable, error)

	// Job is one job. It returns an error of the type NotKnownError for an
	// unknown job.
	Job func(ctx context.Context, name string) (views.JobDetail, error)

	// Jobs are all jobs, by name.
	Jobs func(ctx context.Context) ([]views.Job, []lock.Unreadable, error)

	// Overrides are those in force, by ID.
	Overrides func(ctx context.Context) ([]views.Override, []lock.Unreadable, error)
}

// NotKnownError says that there is no such thing.
type NotKnownError struct{ What string }

func (e *NotKnownError) Error() string { return e.What }

// A fact is what a function has said, and when.
type fact[T any] struct {
	Is   T
	Left []lock.Unreadable // what of it cannot be read
	At   time.Time         // when it was looked at; zero: never
	Err  error             // why it is not known now; Is is what was seen before then
}

// Known reports whether there is something to show.
func (f fact[T]) Known() bool { return !f.At.IsZero() }

// factAge is how old a fact may be: however many look at a page, ZooKeeper is
// asked once.
const factAge = time.Second

// factPatience is how long a look may take.
const factPatience = 5 * time.Second

// errNotHere says that a process does not know something.
var errNotHere = errors.New("this process does not know")

// A memo keeps a fact for a moment. Of many who look at the same time, one asks.
type memo[T any] struct {
	look func(context.Context) (T, []lock.Unreadable, error)
	now  func() time.Time

	turn sync.Mutex // who asks
	mu   sync.Mutex
	last fact[T]
	done time.Time // when it was asked last
}

func newMemo[T any](look func(context.Context) (T, []lock.Unreadable, error), now func() time.Time) *memo[T] {
	return &memo[T]{look: look, now: now}
}

// get returns what is known, asking anew when that is too old.
func (m *memo[T]) get(ctx context.Context) fact[T] {
	if m.look == nil {
		return fact[T]{Err: errNotHere}
	}
	if f, fresh := m.fresh(); fresh {
		return f
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if f, fresh := m.fresh(); fresh {
		return f
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), factPatience) // others wait for it, too
	defer cancel()
	is, left, err := m.look(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = m.now()
	m.last.Err = err
	if err == nil {
		m.last.Is, m.last.Left, m.last.At = is, left, m.done
	}
	return m.last
}

func (m *memo[T]) fresh() (fact[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := m.now().Sub(m.done)
	return m.last, !m.done.IsZero() && age >= 0 && age < factAge
}

// forget has the next one ask: something was done.
func (m *memo[T]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = time.Time{}
}
