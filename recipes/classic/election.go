package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An Election makes one of several candidates the leader, in one process or in
// many. It is wire-compatible with Curator's LeaderLatch: candidates of both may
// stand at one path. It has no state of its own: each call of Run or Campaign is
// another candidate.
//
// Each candidate is one ephemeral sequential node below the path, whose data is
// the candidate's id. The first in line leads; each other watches the one right
// before it. Leadership is a Term: it ends before the server can make another
// candidate the leader.
type Election struct {
	c    *zkclient.Client
	name string // the path as its user writes it
	path string
	id   string
	o    ElectionOptions
}

// ElectionOptions say how a candidate behaves. The zero value is a good choice.
type ElectionOptions struct {
	// Notify, when set, is called with each term that begins, and with each that
	// ends unless the candidate itself ends it, see TellResignation. Calls come
	// one at a time and must not block; they may use the term.
	Notify func(ElectionNotice)

	// Policy says what a lost connection means. Defaults to PolicySession.
	Policy ElectionPolicy

	// TellResignation has Notify called, too, for terms that the candidate ends
	// itself (Curator's close mode NOTIFY_LEADER). By default it does not
	// (SILENT).
	TellResignation bool
}

// ElectionPolicy says what becomes of a term when the connection to ZooKeeper is
// lost.
type ElectionPolicy string

const (
	// PolicySession keeps the term through a disconnect, until the session's
	// deadline: the default.
	PolicySession ElectionPolicy = "session"

	// PolicyStrict ends the term at once. Run keeps the candidate's node: when
	// the connection comes back before the session ends, it leads again, with
	// the same node and the same token.
	PolicyStrict ElectionPolicy = "strict"
)

// ElectionNotice is one thing that happens to a candidate. The set of notices is
// closed.
type ElectionNotice interface{ electionNotice() }

type (
	// Elected: the candidate leads.
	Elected struct{ Term *Term }

	// Dismissed: its term is over. Err is a *LostError, or ErrResigned.
	Dismissed struct {
		Term *Term
		Err  error
	}
)

func (Elected) electionNotice()   {}
func (Dismissed) electionNotice() {}

// ErrResigned is why a Term has ended that its candidate gave up.
var ErrResigned = errors.New("lockkeeper: the leader has resigned")

// MaxCandidateID is how long the id of a candidate may be, in bytes.
const MaxCandidateID = 16 << 10

// Election returns the election at an absolute path, below Config.Chroot, for a
// candidate with this id. An id is for people and for Candidates; it need not be
// unique. It returns *RequestError values, joined, for what can never work.
func NewElection(c *zkclient.Client, path, id string, o ElectionOptions) (*Election, error) {
	full, err := absolute(c, path)
	if len(id) > MaxCandidateID {
		err = errors.Join(err, &zkclient.RequestError{
			Field: "id", Reason: fmt.Sprintf("takes %d bytes; the limit is %d", len(id), MaxCandidateID),
		})
	}
	switch o.Policy {
	case "":
		o.Policy = PolicySession
	case PolicySession, PolicyStrict:
	default:
		err = errors.Join(err, &zkclient.RequestError{
			Field:  "policy",
			Reason: fmt.Sprintf("%q is not a policy; write %s or %s", string(o.Policy), PolicySession, PolicyStrict),
		})
	}
	if err != nil {
		return nil, err
	}
	return &Election{c: c, name: path, path: full, id: id, o: o}, nil
}

// Path returns where the election is held.
func (e *Election) Path() string { return e.name }

// ID returns the candidate's id.
func (e *Election) ID() string { return e.id }

// Campaign stands for election until it leads, and returns its term, which must
// be resigned. It waits for ZooKeeper, too, as long as ctx lives; a candidate
// whose session ends or whose node is deleted stands again, at the end of the
// line. It returns *AccessError, ErrClosed, or the cause of ctx: then the
// candidate is gone from ZooKeeper, or will be with its session.
//
// A term that was lost is over for good; with PolicyStrict, too: only Run leads
// again with the same node.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	b := e.ballot(true)
	t, err := b.next(ctx)
	if err != nil {
		b.notices.Mute()
	}
	return t, err
}

// Run stands for election until ctx ends, and calls lead in each of its terms,
// one after the other. The context of lead ends with the term: its cause is the
// *LostError, or the cause of ctx. Run gives up the leadership only when lead has
// returned; after a loss it stands again only then.
//
// When lead returns nil before the end of its term, Run resigns and stands
// again, at the end of the line. When it returns another error in a term that
// still lasts, Run resigns and returns that error.
//
// Else Run returns what Campaign returns.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	b := e.ballot(false)
	defer b.notices.Mute()
	for {
		t, err := b.next(ctx)
		if err != nil {
			return err
		}
		err = t.during(lead)
		lasted := t.Err() == nil
		resigned := t.finish(ctx)
		switch {
		case ctx.Err() != nil:
			if t.kept() {
				b.leave()
			}
			return context.Cause(ctx)
		case lasted && err != nil:
			return errors.Join(err, resigned)
		}
	}
}

// finish resigns, also when ctx has ended: what takes long goes on in the
// background.
func (t *Term) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), zkclient.LeaveBudget)
	defer cancel()
	err := t.Resign(ctx)
	<-t.told // no notice of this term comes in the next, nor after the last
	return err
}

// during calls lead in the term. Should it panic, the term ends.
func (t *Term) during(lead func(context.Context, *Term) error) error {
	returned := false
	defer func() {
		if !returned {
			t.giveUp()
			t.b.leave()
		}
	}()
	err := lead(t.ctx, t)
	returned = true
	return err
}

// Candidate is one that stands for election, as seen in ZooKeeper.
type Candidate struct {
	ID      string
	Leader  bool
	Session int64      // ZooKeeper session that the candidate lives in
	Since   time.Time  // server's clock
	Token   lock.Token // of its term, if it leads or will
}

// Candidates lists the candidates in line: the first leads. It returns none for
// a path that never had an election. It returns *UnavailableError,
// *AccessError, ErrClosed or the cause of ctx.
func (e *Election) Candidates(ctx context.Context) ([]Candidate, error) {
	return zkclient.Promptly(ctx, e.c, func() ([]Candidate, error) {
		return zkclient.InSessions(ctx, e.c, func(s *zkclient.Session) ([]Candidate, error) {
			return e.candidates(ctx, s, -1)
		})
	}, nil)
}

// Leader returns the candidate that leads: one with an empty id that is no
// leader, as with Curator, without candidates. Its errors are those of
// Candidates.
func (e *Election) Leader(ctx context.Context) (Candidate, error) {
	all, err := zkclient.Promptly(ctx, e.c, func() ([]Candidate, error) {
		return zkclient.InSessions(ctx, e.c, func(s *zkclient.Session) ([]Candidate, error) {
			return e.candidates(ctx, s, 1)
		})
	}, nil)
	if err != nil || len(all) == 0 {
		return Candidate{}, err
	}
	return all[0], nil
}
