package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Grant is a lock that was acquired, until Release or until it is lost.
// Request.Notify is called with what happens to it.
type Grant struct {
	lock    *PriorityLock
	s       *zkclient.Session
	req     Request
	guid    string
	path    string
	born    zkclient.Instant
	version int32          // of the lock node, as this grant wrote it; -1 when not known
	epoch   int32          // of the root, read before the grant
	evicted []evictionNote // by this grant, to be handed on

	walkedIn walkIn // where it walked in; the zero value: it did not

	line *localLine // whose next one it is passed on to; nil: it is not. Set before a release is possible

	notices *notices // the request's
	watch   zkclient.Watcher
	late    bool // its watch is to be armed; guarded by lateWatches

	mu      sync.Mutex
	mode    priority.Mode // shared as soon as it may be
	stamp   zkclient.ServerStamp
	token   Token // 0 when not known yet
	asked   map[askKey]zkclient.Instant
	graceTo zkclient.Instant // end of the earliest grace, while asked
	leaseTo zkclient.Instant // end of the lease
	// while its node may have changed unheard of: the session's deadline of when that began; else 0
	blindTo   zkclient.Instant
	blinks    int // how often that began
	timer     *time.Timer
	looking   bool             // an inspection is under way
	again     bool             // and what it sees may be old
	next      *heir            // the first waiter, as last seen
	around    zkclient.Watcher // of who comes and goes, while the holder is being preempted
	attending bool             // such a watch is or will be armed
	events    int              // how often a request came or went since
	pause     time.Duration    // until the next look
	preparing *preparation     // a look for next that may be under way; nil: none was begun
	attended  *heir            // next, if no request came or went since; else nil
	at        dataVersion      // of the own node: what asked says is of this version
	named     zkclient.Instant // when the grant record named this grant for sure; 0: at birth
	namedAt   int32            // the record's version then; -1 when not known
	state     grantState
	loss      *LostError
}

type grantState uint8

const (
	stateHeld grantState = iota
	stateReleased
	stateLost
)

// askKey tells one note in the mailbox from another. A request that asks again
// under other terms replaces its note: that is another one.
type askKey struct {
	id       string
	reason   priority.Reason
	at       int64
	grace    int64
	forceful bool
}

// Scope returns what the lock protects.
func (g *Grant) Scope() string { return g.lock.scope }

// ID returns the guid under which the grant stands in ZooKeeper.
func (g *Grant) ID() string { return g.guid }

// Mode returns how the lock is held: as it was asked for, or shared after
// Downgrade.
func (g *Grant) Mode() priority.Mode {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mode
}

// Deadline returns until when the lock is certainly held if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer,
// once it is known that the lock is held yet. It knows nothing of leases, graces
// and force: when those take the lock of a holder that is cut off is in "Takeovers
// and breaks" in docs/safety.md.
func (g *Grant) Deadline() time.Time {
	end := g.s.Deadline()
	g.mu.Lock()
	if g.blindTo != 0 {
		end = min(end, g.blindTo)
	}
	g.mu.Unlock()
	return time.Now().Add(end.Sub(g.s.Awake()))
}

// Token returns the fencing token. After a hand-over it has to be read first, once; that read also proves the
// grant, where others than clients may have written to its node: see "Foreign nodes" in docs/protocol.md. It
// returns the *LostError if the lock was lost before it was known.
func (g *Grant) Token(ctx context.Context) (Token, error) {
	g.mu.Lock()
	token := g.token
	g.mu.Unlock()
	if token != 0 {
		return token, nil
	}
	return zkclient.Promptly(ctx, g.lock.c.Client, func() (Token, error) { return g.readToken(ctx) }, nil)
}

func (g *Grant) readToken(ctx context.Context) (Token, error) {
	for {
		g.mu.Lock()
		token, loss := g.token, g.loss
		g.mu.Unlock()
		switch {
		case token != 0:
			return token, nil
		case loss != nil:
			return 0, loss
		}
		if err := g.inspect(ctx); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
			return 0, g.lossOr(err)
		}
	}
}

// several reports whether others may hold the lock beside this grant. Then G
// changes without it, and is read before each release.
func (g *Grant) several() bool { return g.req.Hold != "" || g.Mode() == priority.Shared }

func (g *Grant) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == stateHeld
}
