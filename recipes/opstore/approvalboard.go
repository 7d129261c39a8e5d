package opstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An ApprovalBoard is where polite requests whose holders have not finished in
// time ask people what to do.
//
//	<root>/approvals                persistent
//	<root>/approvals/a-0000000012   ephemeral: the question, then the decision; operators may write it
//
// The question is the node of the process that asks, and lives as long as that
// wants to know. The decision is written into it. The process trusts it since
// it has made the node, in its own session, with a list that lets only
// operators write. In an open deployment, without credentials, all clients see
// the questions on the board, and none can decide.
type ApprovalBoard struct{ c *zkclient.Client }

// NewApprovalBoard returns the board of a client's root.
func NewApprovalBoard(c *zkclient.Client) *ApprovalBoard { return &ApprovalBoard{c: c} }

// OpenApproval is a question that this client has put on the board.
type OpenApproval struct {
	b    *ApprovalBoard
	s    *zkclient.Session
	id   string
	path string
}

// ID returns the name of the question, for example "a-0000000012".
func (o *OpenApproval) ID() string { return o.id }

// Open puts a question on the board. It stays there until Close, or until the
// client's session ends.
func (b *ApprovalBoard) Open(ctx context.Context, r ApprovalRequest) (*OpenApproval, error) {
	rec := approvalRecord{
		Format: znode.RecordFormat, GUID: znode.NewGUID(), By: b.c.Identity(), Host: b.c.Host(), PID: b.c.PID(),
		ApprovalRequest: r.fit(), WaitedMS: r.Waited.Milliseconds(), DeadlineMS: r.Deadline.Milliseconds(),
	}
	o, err := zkclient.Promptly(ctx, b.c, func() (*OpenApproval, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (*OpenApproval, error) {
			return b.openOn(ctx, s, rec)
		})
	}, func(o *OpenApproval, err error) {
		if err == nil {
			_ = o.Close(context.Background())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("approval for %q not opened: %w", r.Scope, err)
	}
	return o, nil
}

func (b *ApprovalBoard) openOn(ctx context.Context, s *zkclient.Session, rec approvalRecord) (*OpenApproval, error) {
	data, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	if err := s.Ensure(ctx, b.path()); err != nil {
		return nil, err
	}
	acl, err := b.acl(ctx, s)
	if err != nil {
		return nil, err
	}
	for {
		created, err := s.CreateNamed(ctx, b.path()+"/"+approvalPrefix, data,
			zkclient.FlagEphemeral|zkclient.FlagSequence, acl)
		if err == nil {
			return &OpenApproval{b: b, s: s, id: path.Base(created), path: created}, nil
		}
		if !errors.Is(err, zkclient.ErrAmbiguous) {
			return nil, err
		}
		all, _, err := b.list(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			if n.rec.GUID == rec.GUID && n.stat.EphemeralOwner == s.SessionID() {
				return &OpenApproval{b: b, s: s, id: n.id, path: b.node(n.id)}, nil
			}
		}
	}
}

// acl returns that of a question: operators write, the others of the root read.
func (b *ApprovalBoard) acl(ctx context.Context, s *zkclient.Session) ([]zkclient.ACLEntry, error) {
	root, err := b.c.VouchRoot(ctx, s)
	switch {
	case zkclient.IsUntrusted(err):
		return b.c.OperatorACL(nil), nil // those of the configuration alone
	case err != nil:
		return nil, err
	}
	return b.c.OperatorACL(root), nil
}

// Decision waits for the decision. It returns the cause of ctx when that ends
// first, and a *NoApprovalError when the question is not on the board any more:
// the session has ended, or it was removed. Open it again then.
func (o *OpenApproval) Decision(ctx context.Context) (Decision, error) {
	var d Decision
	gone := &NoApprovalError{ID: o.id}
	err := o.s.AwaitNode(ctx, o.path, false, func(sight zkclient.NodeSight) (bool, error) {
		if sight.Stat == nil || sight.Stat.EphemeralOwner != o.s.SessionID() {
			return false, gone // what is there now was put there by another process
		}
		rec, err := decodeApproval(sight.Data)
		if err != nil {
			return false, znode.InNode(err, o.path)
		}
		if rec.Decision == nil || o.b.noneDecides() {
			return false, nil
		}
		d = rec.Decision.public(sight.Stat)
		return true, nil
	})
	if errors.Is(err, zkclient.ErrSessionOver) {
		err = errors.Join(gone, err)
	} else if errors.Is(err, zkclient.ErrAmbiguous) {
		return o.Decision(ctx)
	}
	return d, err
}

// noneDecides reports whether there is no identity to trust: neither
// credentials nor operators.
func (b *ApprovalBoard) noneDecides() bool {
	return b.c.Unlisted()
}

// Close takes the question from the board. It may be called again.
func (o *OpenApproval) Close(ctx context.Context) error {
	_, err := zkclient.Promptly(ctx, o.b.c, func() (struct{}, error) {
		for {
			err := o.s.Delete(ctx, o.path, -1)
			if !errors.Is(err, zkclient.ErrAmbiguous) {
				return struct{}{}, err
			}
		}
	}, nil)
	if errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrSessionOver) {
		return nil
	}
	return err
}

// List returns what is on the board, in the order in which it was opened, and the
// nodes that cannot be read, by path. What it says of decisions is for people:
// only who asked can trust it.
func (b *ApprovalBoard) List(ctx context.Context) ([]Approval, []zkclient.Unreadable, error) {
	type questions struct {
		nodes []approvalNode
		left  []zkclient.Unreadable
	}
	q, err := zkclient.Promptly(ctx, b.c, func() (questions, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (q questions, err error) {
			q.nodes, q.left, err = b.list(ctx, s)
			return q, err
		})
	}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("approvals: %w", err)
	}
	all := make([]Approval, 0, len(q.nodes))
	for _, n := range q.nodes {
		all = append(all, n.public())
	}
	return all, q.left, nil
}

// Find returns a question of the board. The error is a *NoApprovalError when there
// is none with that ID, or no more.
func (b *ApprovalBoard) Find(ctx context.Context, id string) (Approval, error) {
	all, unreadable, err := b.List(ctx)
	if err != nil {
		return Approval{}, err
	}
	for _, u := range unreadable {
		if u.Name == id {
			return Approval{}, fmt.Errorf("approval %q not decided: the question cannot be read: %s", id, u)
		}
	}
	for _, a := range all {
		if a.ID == id {
			return a, nil
		}
	}
	return Approval{}, &NoApprovalError{ID: id}
}

// Decide writes the decision into a question. It returns an *IdentityError for a
// client that is no operator, a *NoApprovalError when there is no such question
// any more, and a *DecidedError when it has been decided already.
func (b *ApprovalBoard) Decide(ctx context.Context, id string, d Decision) error {
	what := fmt.Sprintf("approval %q not decided", id)
	if err := b.c.CheckOperator(ctx, what); err != nil {
		return err
	}
	if d.By == "" || len(d.By) > maxDecision {
		return &zkclient.RequestError{Field: "by", Reason: "is missing, or takes more than 1000 bytes; write who decides"}
	}
	rec := decisionRecord{
		Write: znode.NewGUID(), Approved: d.Approved, Force: d.Approved && d.Force, By: d.By,
		Reason: words.Clip(d.Reason, maxDecision), Identity: b.c.Identity(),
	}
	_, err := zkclient.Promptly(ctx, b.c, func() (struct{}, error) {
		sent := false
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (struct{}, error) {
			err := b.decideOn(ctx, s, id, rec, &sent)
			if gone, ok := errors.AsType[*NoApprovalError](err); ok {
				gone.Sent = sent // who asked may have read it, and gone
			}
			return struct{}{}, err
		})
	}, nil)
	switch {
	case err == nil, errors.As(err, new(*NoApprovalError)), errors.As(err, new(*DecidedError)):
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (b *ApprovalBoard) decideOn(
	ctx context.Context, s *zkclient.Session, id string, d decisionRecord, sent *bool,
) error {
	for {
		n, err := b.read(ctx, s, id)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return b.unknown(ctx, s, id)
		case err != nil:
			return err
		case n.rec.Decision != nil && n.rec.Decision.Write == d.Write:
			return nil // before the connection was lost
		case n.rec.Decision != nil:
			return &DecidedError{ID: id, Decision: n.rec.Decision.public(n.stat)}
		}
		n.rec.Decision = &d
		data, err := json.Marshal(n.rec)
		if err != nil {
			return err
		}
		_, err = s.Set(ctx, b.node(id), data, n.stat.Version)
		*sent = *sent || errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrSessionOver)
		if !errors.Is(err, zkclient.ErrBadVersion) && !errors.Is(err, zkclient.ErrNoNode) {
			return err
		}
	}
}

// unknown says which questions there are instead.
func (b *ApprovalBoard) unknown(ctx context.Context, s *zkclient.Session, id string) error {
	e := &NoApprovalError{ID: id}
	nodes, _, err := b.list(ctx, s)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.rec.Decision == nil {
			e.Open = append(e.Open, n.id)
		}
	}
	return e
}

func (b *ApprovalBoard) path() string { return b.c.Root() + "/approvals" }

func (b *ApprovalBoard) node(id string) string { return b.path() + "/" + id }

func (b *ApprovalBoard) read(ctx context.Context, s *zkclient.Session, id string) (approvalNode, error) {
	if !IsApprovalID(id) {
		return approvalNode{}, zkclient.ErrNoNode
	}
	data, stat, err := s.Get(ctx, b.node(id))
	if err != nil {
		return approvalNode{}, err
	}
	rec, err := decodeApproval(data)
	return approvalNode{id: id, rec: rec, stat: stat}, znode.InNode(err, b.node(id))
}

// list reads the questions that there are.
func (b *ApprovalBoard) list(
	ctx context.Context, s *zkclient.Session,
) (nodes []approvalNode, left []zkclient.Unreadable, err error) {
	names, _, err := s.List(ctx, b.path())
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !IsApprovalID(name) {
			left = append(left, zkclient.Misplaced(b.node(name), NotAQuestion))
			continue
		}
		n, err := b.read(ctx, s, name)
		bad, isBad := zkclient.LeftOut(err, b.node(name), name)
		switch {
		case errors.Is(err, zkclient.ErrNoNode): // gone since
		case isBad:
			left = append(left, bad)
		case err != nil:
			return nil, nil, err
		default:
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b approvalNode) int { return strings.Compare(a.id, b.id) })
	return nodes, zkclient.ByPath(left), nil
}
