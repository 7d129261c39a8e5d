package classic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Mutex is a lock that programs in other languages can join. Curator's
// InterProcessMutex on the same path and this one exclude each other. With
// Kazoo's Lock it has to be told who is in the line:
//
//   - Kazoo alone: Naming NamingKazoo here, and zk.Lock(path) there; or the
//     default naming here, and zk.Lock(path, extra_lock_patterns=["-lock-"])
//   - Curator as well: the default naming here, and there a Lock whose nodes are
//     called as Curator's are; see docs/recipes.md for the subclass
//
// First come, first served; each who waits watches the one right in front of it.
//
// It holds no state of its own: any number of them may stand for one path, and
// one may serve any number of goroutines, which are strangers to each other.
// There are no priorities, and no client can take it away: see PriorityLock.
type Mutex struct {
	l    *line
	opts MutexOptions
}

// MutexOptions say how a Mutex behaves. The zero value is that of Curator.
type MutexOptions struct {
	// ACL returns who may use a node that is to be created: the lock's
	// directory, those above it, and a participant's node, whose path then
	// lacks the sequence number. Paths are as seen below Config.Chroot. It may
	// return nil for the client's own ACL. Defaults to that for all.
	ACL func(path string) []zkclient.ACL

	// AcquireTimeout bounds everything from call to grant. 0: take the lock only
	// if there is no other participant, see TryAcquire. nil: as long as the
	// context lives.
	AcquireTimeout *time.Duration

	// Data is written to the participant's node, for people and for
	// Participants. Defaults to "host:pid".
	Data []byte

	// Naming is how the participant's node is called: by the language that the
	// others in the line use. Defaults to NamingCurator.
	Naming Naming

	// Notify, when set, is called with what happens to each request and its grant:
	//
	//   - Queued: it stands behind another. The only holder that it names is the
	//     one in front, the node's name as ID and its data as Owner
	//   - Requeued: its session ended, it stands at the end of the line again
	//     (a persistent one in its old place)
	//   - PreemptRequested: a client asks the holder to release, by Curator's
	//     Revoker or Revoke. Nothing else is known, and no time is set: the
	//     lock stays held until its release
	//   - PreemptionWithdrawn: the node's data was changed back
	//   - AtRisk, Lost
	//
	// Calls for one request come one at a time and must not block. They may use
	// the grant: notices that this causes follow.
	Notify func(lock.Notice)

	// Persistent makes a node that outlives the session and the process: the
	// lock stays held until it is released, or an administrator deletes the
	// node. Defaults to false.
	Persistent bool
}

// Mutex returns the lock in the directory at path, an absolute path below
// Config.Chroot. It returns *RequestError values, joined, for a path or options
// that can never work.
func NewMutex(c *zkclient.Client, path string, opts MutexOptions) (*Mutex, error) {
	l, err := newLine(c, path, opts.Naming, opts.ACL, lockMarks)
	if err := errors.Join(err, opts.complete(c)); err != nil {
		return nil, err
	}
	return &Mutex{l: l, opts: opts}, nil
}

// Path returns the lock's directory.
func (m *Mutex) Path() string { return m.l.label }

// Acquire waits for the lock and returns the grant of it, which must be
// released. With a context that carries a grant of this path, see
// Grant.Context, it returns at once with another grant of the same hold:
// the lock is free when all are released. Without it the caller is a stranger,
// even to itself, and waits: Go knows no owner but that.
//
// When it returns an error, the request is gone from ZooKeeper, or will be with
// its session, and is never granted later:
//
//   - *NotAcquiredError: the acquire timeout is over
//   - *EvictedError: the request's node was deleted. It may come late: a waiter
//     watches who is in front, and looks for its own node when that one leaves,
//     or after a minute
//   - *UpgradeError: ctx carries the read side of this path and not the write
//     side, see RWMutex: it would wait for itself
//   - *UnavailableError: ZooKeeper does not answer
//   - *AccessError: an ACL does not allow it
//   - ErrClosed: the client is closed
//   - else the cause of ctx
//
// A request whose session ends while it waits stands in line anew.
func (m *Mutex) Acquire(ctx context.Context) (*Grant, error) {
	return m.acquire(ctx, m.opts.AcquireTimeout)
}

// TryAcquire takes the lock if there is no other participant, and else fails at
// once with a *NotAcquiredError that names it.
func (m *Mutex) TryAcquire(ctx context.Context) (*Grant, error) {
	return m.acquire(ctx, new(time.Duration))
}

func (m *Mutex) acquire(ctx context.Context, timeout *time.Duration) (*Grant, error) {
	if g := m.l.carriedGrant(ctx, func(h *hold) bool { return !h.mark.shared }); g != nil {
		if again := g.h.again(); again != nil {
			return again, nil
		}
	}
	if m.l.carriedGrant(ctx, reads) != nil {
		return nil, &UpgradeError{Scope: m.l.label}
	}
	b := m.opts.bid(m.l, timeout)
	b.stand(m.l, &entry{mark: m.l.lockMark(), data: m.opts.Data, lasting: m.opts.Persistent}, behindAll)
	return b.make(ctx)
}

// lockMark is that of a mutex.
func (l *line) lockMark() mark {
	if l.naming == NamingKazoo {
		return kazooLock
	}
	return curatorLock
}

// Participants lists who holds the lock and who waits for it, in order,
// whatever language they are written in.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.l.participants(ctx)
}

// A Participant is one that holds, or waits for, something of a classic recipe.
type Participant struct {
	Path     string // of its node, below Config.Chroot
	Data     []byte // what it wrote, for people; "__REVOKE__" when it was asked to release
	Session  int64  // ZooKeeper session it lives in; 0 for a node that outlives that
	Sequence int32  // orders the participants
	Reader   bool   // it shares with other readers
	Joined   time.Time
	// the zxid that created its node; for a reader that was a writer it is not that of its grant, which is smaller
	Token lock.Token
}

// participants reads the line, those left out that leave meanwhile.
func (l *line) participants(ctx context.Context) ([]Participant, error) {
	return zkclient.Promptly(ctx, l.c, func() (list []Participant, err error) {
		err = l.c.Reading(ctx, func(s *zkclient.Session) error {
			queue, err := l.queue(ctx, s)
			if err != nil {
				return err
			}
			list = make([]Participant, 0, len(queue))
			for _, t := range queue {
				data, stat, err := s.Get(ctx, l.path+"/"+t.name)
				switch {
				case errors.Is(err, zkclient.ErrNoNode):
					continue
				case err != nil:
					return err
				}
				list = append(list, Participant{
					Path: l.label + "/" + t.name, Data: data, Session: stat.EphemeralOwner, Sequence: t.sequence,
					Reader: t.mark.shared, Joined: time.UnixMilli(stat.Ctime), Token: lock.Token(stat.Czxid),
				})
			}
			return nil
		})
		return list, err
	}, nil)
}

// complete fills in defaults and reports everything that can never work.
func (o *MutexOptions) complete(c *zkclient.Client) error {
	var errs []error
	if o.AcquireTimeout != nil && *o.AcquireTimeout < 0 {
		errs = append(errs, &zkclient.RequestError{
			Field:  "acquire_timeout",
			Reason: fmt.Sprintf("%s is negative; write 0 for a try, or leave it out", *o.AcquireTimeout),
		})
	}
	if len(o.Data) > priority.MaxMessage {
		errs = append(errs, &zkclient.RequestError{
			Field: "data", Reason: fmt.Sprintf("takes %d bytes; the limit is %d", len(o.Data), priority.MaxMessage),
		})
	}
	if o.Data = slices.Clone(o.Data); o.Data == nil {
		o.Data = fmt.Appendf(nil, "%s:%d", c.Host(), c.PID())
	}
	return errors.Join(errs...)
}

func (o *MutexOptions) bid(l *line, timeout *time.Duration) *bid {
	return &bid{c: l.c, label: l.label, timeout: timeout, notices: newNotices(o.Notify)}
}
