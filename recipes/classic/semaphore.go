package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Semaphore lets a limited number of permits be held at a time, by all
// processes together. It is wire-compatible with Curator's
// InterProcessSemaphoreV2, or with Kazoo's Semaphore: see SemaphoreOptions. It
// has no state of its own.
//
// Each permit is an ephemeral node. A caller that wants permits stands in a
// line, and only the first in it watches the permits: it takes all that it
// wants at once, in one transaction, or waits. So permits are given first come,
// first served, and one that wants many is not overtaken by those that want
// few.
type Semaphore struct {
	c      *zkclient.Client
	name   string // the path as its user writes it
	o      SemaphoreOptions
	locks  *line  // of those who want permits
	leases *line  // where the permits are; they stand in no order
	count  string // the node that says the limit; "": only the users say it
}

// SemaphoreOptions say how many permits there are, and who else shares them.
type SemaphoreOptions struct {
	// AcquireTimeout bounds everything from call to grant. 0: take permits only
	// if they are free, see TryAcquire. nil: as long as the context lives.
	AcquireTimeout *time.Duration

	// ID says for people who holds a permit: at most priority.MaxOwner bytes. Defaults
	// to "host:pid".
	ID string

	// Limit is how many permits there are. All users have to say the same: with
	// NamingCurator a difference goes unnoticed, with NamingKazoo Acquire returns
	// a *LimitError. With LimitPath it is what that node is created with, and may
	// be 0. Must be positive otherwise.
	Limit int

	// LimitPath, when set, is the absolute path of a node that says how many
	// permits there are, as Curator's SharedCount keeps it: then the limit can be changed while
	// the semaphore is in use, see SetLimit. Created when missing.
	// With NamingCurator only.
	LimitPath string

	// Naming says which implementations share the permits. The layouts cannot
	// share a path.
	//
	// NamingCurator: permits are <path>/leases/_c_<uuid>-lease-<seq>, the line
	// is in <path>/locks. A process of Curator's that waits has its node among
	// the permits already, and counts in Permits.
	//
	// NamingKazoo: permits are <path>/<uuid>, the line is in <path>-__lock__,
	// and the data of <path> is the limit.
	Naming Naming

	// Notify, when set, is called with Queued and Requeued, and for each permit
	// with AtRisk and Lost. Calls must not block.
	Notify func(lock.Notice)
}

// Semaphore returns the semaphore at an absolute path, below Config.Chroot. It
// returns *RequestError values, joined, for what can never work.
func NewSemaphore(c *zkclient.Client, path string, o SemaphoreOptions) (*Semaphore, error) {
	m := &Semaphore{c: c, name: path}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &zkclient.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	full, err := absolute(c, path)
	errs = append(errs, err)
	if o.ID == "" {
		o.ID = fmt.Sprintf("%s:%d", c.Host(), c.PID())
	}
	if len(o.ID) > priority.MaxOwner {
		bad("id", "takes %d bytes; the limit is %d", len(o.ID), priority.MaxOwner)
	}
	if o.AcquireTimeout != nil && *o.AcquireTimeout < 0 {
		bad("acquire_timeout", "%s is negative; write 0 for a try, or leave it out", *o.AcquireTimeout)
	}
	switch {
	case o.Limit < 0, o.Limit == 0 && o.LimitPath == "":
		bad("limit", "%d is not positive; write how many permits there are", o.Limit)
	case o.Limit > maxLimit:
		bad("limit", "%d is too much; the limit is %d", o.Limit, maxLimit)
	}
	if o.LimitPath != "" {
		m.count, err = absolute(c, o.LimitPath)
		if err != nil {
			errs = append(errs, err)
		}
	}
	switch o.Naming {
	case NamingCurator:
		m.locks = &line{c: c, label: path, path: full + "/locks", naming: o.Naming, marks: []mark{curatorLock}}
		m.leases = &line{c: c, label: path, path: full + "/leases", naming: o.Naming, marks: []mark{curatorLease}}
	case NamingKazoo:
		m.locks = &line{c: c, label: path, path: full + "-__lock__", naming: o.Naming, marks: []mark{kazooLock}}
		m.leases = &line{c: c, label: path, path: full, naming: o.Naming}
		if m.count != "" {
			bad("limit_path", "a semaphore that Kazoo shares keeps its limit in %s; leave it out", path)
		}
		m.count = full
	default:
		bad("naming", "%d is not known; write NamingCurator or NamingKazoo", o.Naming)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.o = o
	return m, nil
}

// maxLimit is what Curator can count.
const maxLimit = 1<<31 - 1

// Path returns where the semaphore is.
func (m *Semaphore) Path() string { return m.name }

// Acquire waits for a permit, which must be released. It is AcquireN of one.
func (m *Semaphore) Acquire(ctx context.Context) (*Grant, error) {
	permits, err := m.AcquireN(ctx, 1)
	if err != nil {
		return nil, err
	}
	return permits[0], nil
}

// AcquireN waits until n permits are free and takes all of them at once. Each
// is released by itself. When it returns an error, none is held, and the request
// is gone from ZooKeeper, or will be with its session:
//
//   - *RequestError: n is not positive, more than there will ever be, or more
//     than fit into one transaction (half a MiB: about 1,500)
//   - *NoPermitsError, which is a *NotAcquiredError, too: the acquire timeout is over
//   - *LimitError: others say another limit
//   - *UnavailableError: ZooKeeper does not answer
//   - *AccessError: the ACL does not allow it
//   - ErrClosed: the client is closed
//   - else the cause of ctx
//
// A request whose session ends while it waits, or whose node is deleted, queues
// again. One that wants more than a changeable limit waits until that is raised.
//
// The token of a permit is the zxid in which it was taken: the same for all of
// one call. It tells who came first, and grows with every grant where there is
// one permit only; of several that are held side by side the smaller is as
// valid as the greater.
func (m *Semaphore) AcquireN(ctx context.Context, n int) ([]*Grant, error) {
	return m.acquire(ctx, n, m.o.AcquireTimeout)
}

// TryAcquire takes n permits if they are free and no other caller stands in
// line for them; else it returns a *NoPermitsError at once and leaves nothing
// behind. In a crowd it may be refused although permits are free: another
// caller is about to take or to return them. Else it returns what AcquireN
// returns.
func (m *Semaphore) TryAcquire(ctx context.Context, n int) ([]*Grant, error) {
	return m.acquire(ctx, n, new(time.Duration))
}

// Release gives back permits, all of them even if one was lost: then it returns
// that one's error, joined with others.
func (m *Semaphore) Release(ctx context.Context, permits ...*Grant) error {
	errs := make(chan error, len(permits))
	for _, g := range permits {
		go func() { errs <- g.Release(ctx) }()
	}
	var all []error
	for range permits {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// NoPermitsError is returned when a try is refused, or when the acquire timeout
// ends before there are as many permits as are wanted.
type NoPermitsError struct {
	Path   string
	Wanted int
	Limit  int                    // how many permits there are
	Left   int                    // how many were free, as last seen
	Err    *lock.NotAcquiredError // how long it waited, and who stands in front
}

func (e *NoPermitsError) Error() string {
	s := fmt.Sprintf("semaphore %q: %d permits not acquired", e.Path, e.Wanted)
	if e.Err.Waited > 0 {
		s += fmt.Sprintf(" within %s", e.Err.Waited.Round(time.Millisecond))
	}
	if e.Err.Err == nil { // else it is unknown
		s += fmt.Sprintf(": %d of %d are free", e.Left, e.Limit)
	}
	if ahead := e.Err.Ahead + len(e.Err.Holders); ahead > 0 {
		s += fmt.Sprintf(", and %d stand in line in front", ahead)
	}
	if e.Err.Err != nil {
		s += fmt.Sprintf(": %v", e.Err.Err)
	}
	return s + "; try again later"
}

// Unwrap returns what other recipes return.
func (e *NoPermitsError) Unwrap() error { return e.Err }

// LimitError is returned when the node that says how many permits there are says
// something else than this user, or nothing that makes sense.
type LimitError struct {
	Path   string // of the semaphore
	Node   string
	Data   string // what it says
	Wanted int    // what this user says
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("semaphore %q: %s says %q where this user says %d permits; "+
		"let all say the same, or delete the node while it is unused",
		e.Path, e.Node, e.Data, e.Wanted)
}

// Permit is one permit as seen in ZooKeeper.
type Permit struct {
	ID      string // of its holder
	Node    string // as seen below Config.Chroot
	Session int64  // ZooKeeper session that it lives in
	Since   time.Time
	Token   lock.Token
}

// Permits lists the permits that are held, in the order in which they were
// taken. It returns *UnavailableError, *AccessError, ErrClosed or the cause of
// ctx.
func (m *Semaphore) Permits(ctx context.Context) ([]Permit, error) {
	return zkclient.Promptly(ctx, m.c, func() ([]Permit, error) {
		return zkclient.InSessions(ctx, m.c, func(s *zkclient.Session) ([]Permit, error) { return m.permits(ctx, s) })
	}, nil)
}

// Left returns how many permits are free: 0, too, while more are held than a
// limit allows that was lowered. It returns what Permits returns, or a
// *LimitError.
func (m *Semaphore) Left(ctx context.Context) (int, error) {
	return zkclient.Promptly(ctx, m.c, func() (int, error) {
		return zkclient.InSessions(ctx, m.c, func(s *zkclient.Session) (int, error) {
			pool, err := m.look(ctx, s, nil)
			return pool.left(), err
		})
	}, nil)
}

// Limit returns how many permits there are. It returns what Left returns.
func (m *Semaphore) Limit(ctx context.Context) (int, error) {
	return zkclient.Promptly(ctx, m.c, func() (int, error) {
		return zkclient.InSessions(ctx, m.c, func(s *zkclient.Session) (int, error) {
			pool, err := m.look(ctx, s, nil)
			return pool.limit, err
		})
	}, nil)
}

// SetLimit changes how many permits there are, for all users with this
// LimitPath. Waiters learn of it at once. Where more are held than that, their
// holders keep them. It returns a *RequestError without a LimitPath, and else
// what Permits returns; after the cause of ctx it may have been changed.
func (m *Semaphore) SetLimit(ctx context.Context, limit int) error {
	switch {
	case m.o.LimitPath == "":
		return &zkclient.RequestError{
			Field:  "limit_path",
			Reason: "without it the limit cannot be changed; write the path of a node that all users share",
		}
	case limit < 0 || limit > maxLimit:
		return &zkclient.RequestError{
			Field: "limit", Reason: fmt.Sprintf("%d is out of range; write something from 0 to %d", limit, maxLimit),
		}
	}
	_, err := zkclient.Promptly(ctx, m.c, func() (struct{}, error) {
		return zkclient.InSessions(ctx, m.c, func(s *zkclient.Session) (struct{}, error) {
			return struct{}{}, m.writeLimit(ctx, s, limit)
		})
	}, nil)
	return err
}

// A SemaphoreMutex is a Semaphore with one permit: a lock that is not reentrant
// and that any code may release that has the grant. It is wire-compatible with
// Curator's InterProcessSemaphoreMutex. Its tokens grow with every grant.
type SemaphoreMutex struct{ m *Semaphore }

// SemaphoreMutex returns the semaphore mutex at an absolute path, below
// Config.Chroot, for a user with this id: see SemaphoreOptions.ID. It returns
// *RequestError values, joined, for what can never work.
func NewSemaphoreMutex(c *zkclient.Client, path, id string) (*SemaphoreMutex, error) {
	m, err := NewSemaphore(c, path, SemaphoreOptions{ID: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	return &SemaphoreMutex{m}, nil
}

// Path returns where the mutex is.
func (x *SemaphoreMutex) Path() string { return x.m.Path() }

// Acquire waits for the mutex, as Semaphore.Acquire does for a permit.
func (x *SemaphoreMutex) Acquire(ctx context.Context) (*Grant, error) { return x.m.Acquire(ctx) }

// TryAcquire takes the mutex if it is free, as Semaphore.TryAcquire does.
func (x *SemaphoreMutex) TryAcquire(ctx context.Context) (*Grant, error) {
	permits, err := x.m.TryAcquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	return permits[0], nil
}
