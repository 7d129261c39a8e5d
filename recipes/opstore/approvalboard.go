package opstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

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

// ApprovalRequest says what is to be decided: whether Requestor may take the
// lock by force.
//
// Long texts are cut, and of very many holders the last one says how many there
// are besides.
type ApprovalRequest struct {
	Scope     string            `json:"scope"`
	Job       string            `json:"job,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Requestor AuditParty        `json:"requestor"`
	Holders   []AuditParty      `json:"holders"`
	Reason    string            `json:"reason,omitempty"` // why the lock is wanted, for people

	// Waited is how long ago the holders were asked to release, and Deadline how
	// long from now on the requestor waits for the decision; 0: it has not said.
	// Rounded to milliseconds.
	Waited   time.Duration `json:"-"`
	Deadline time.Duration `json:"-"`
}

// fit returns the request with its texts cut: a question has to fit into a node,
// however many share the lock.
func (r ApprovalRequest) fit() ApprovalRequest {
	r.Reason, r.Job = words.Clip(znode.Valid(r.Reason), maxDecision), words.Clip(znode.Valid(r.Job), maxAuditName)
	r.Labels, r.Requestor = fitChanges(r.Labels), r.Requestor.fit()
	holders := make([]AuditParty, 0, min(len(r.Holders), maxAuditVictims+1))
	for i, h := range r.Holders {
		if i == maxAuditVictims {
			holders = append(holders, AuditParty{Owner: fmt.Sprintf("%d more", len(r.Holders)-i)})
			break
		}
		holders = append(holders, h.fit())
	}
	r.Holders = holders
	return r
}

// Approval is a question, on the board or in a workflow.
type Approval struct {
	ID string // "a-0000000012", see Workflow
	ApprovalRequest
	By       string    // Identity of the client that asks, as that one says
	Host     string    // of that client, as it says
	PID      int       // of that client, as it says
	Opened   time.Time // by the servers' clock
	Until    time.Time // Opened and the Deadline; zero without one
	Decision *Decision // nil: none yet

	// Workflow: it is not on the board, but in a workflow of a Temporal server
	// (temporal.Approvals), and outlives the process that asks. The clock is that
	// server's, and By unknown.
	Workflow  bool
	Escalated []Escalated // of a workflow: who was told that it waits
}

// Escalated is a person or channel that was notified of a waiting question.
type Escalated struct {
	At time.Time `json:"at"` // by the clock of the Temporal server
	To string    `json:"to"`
}

// Decision is an operator's answer.
type Decision struct {
	Approved bool `json:"approved"`

	// Force, with Approved: the lock is taken at once. Without, as soon as the
	// grace of its holders is over: nothing that they were promised is cut short.
	Force bool `json:"force"`

	By     string `json:"by"` // a person, or a rule
	Reason string `json:"reason"`

	// Identity is that of the client that decided, as that one says, and At when,
	// by the servers' clock. Both are filled in by Decide.
	Identity string    `json:"identity"`
	At       time.Time `json:"at"`
}

// Word says what was decided: approved, forced or denied.
func (d Decision) Word() string {
	switch {
	case d.Approved && d.Force:
		return "forced"
	case d.Approved:
		return "approved"
	}
	return "denied"
}

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
		Format: znode.RecordFormat, GUID: znode.NewGUID(), By: b.c.Identity(), Host: b.c.Host(), PID: b.c.PID(), ApprovalRequest: r.fit(),
		WaitedMS: r.Waited.Milliseconds(), DeadlineMS: r.Deadline.Milliseconds(),
	}
	o, err := zkclient.Promptly(ctx, b.c, func() (*OpenApproval, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (*OpenApproval, error) { return b.openOn(ctx, s, rec) })
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
		created, err := s.CreateNamed(ctx, b.path()+"/"+approvalPrefix, data, zkclient.FlagEphemeral|zkclient.FlagSequence, acl)
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
	rec := decisionRecord{Write: znode.NewGUID(), Approved: d.Approved, Force: d.Approved && d.Force, By: d.By, Reason: words.Clip(d.Reason, maxDecision), Identity: b.c.Identity()}
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

func (b *ApprovalBoard) decideOn(ctx context.Context, s *zkclient.Session, id string, d decisionRecord, sent *bool) error {
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

// --- nodes ---------------------------------------------------------------------------

const approvalPrefix = "a-"

// maxDecision bounds each text of a question or a decision, in bytes.
const maxDecision = 1000

func (b *ApprovalBoard) path() string { return b.c.Root() + "/approvals" }

func (b *ApprovalBoard) node(id string) string { return b.path() + "/" + id }

// IsApprovalID reports whether id can be the name of a question, and nothing else.
func IsApprovalID(id string) bool {
	digits, ok := strings.CutPrefix(id, approvalPrefix)
	if ok {
		_, ok = znode.ParseSequence(digits)
	}
	return ok
}

// approvalNode is a question as it stands in ZooKeeper.
type approvalNode struct {
	id   string
	rec  approvalRecord
	stat *zkclient.Stat
}

type approvalRecord struct {
	Format int    `json:"format"`
	GUID   string `json:"guid"`
	By     string `json:"by,omitempty"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	ApprovalRequest
	WaitedMS   int64           `json:"waited_ms"`
	DeadlineMS int64           `json:"deadline_ms,omitempty"`
	Decision   *decisionRecord `json:"decision,omitempty"`
}

type decisionRecord struct {
	Write    string `json:"write"` // the call that decided
	Approved bool   `json:"approved"`
	Force    bool   `json:"force,omitempty"`
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
	Identity string `json:"identity"`
}

func decodeApproval(data []byte) (rec approvalRecord, err error) {
	err = znode.Decode(data, &rec, &rec.Format)
	rec.Waited, rec.Deadline = time.Duration(rec.WaitedMS)*time.Millisecond, time.Duration(rec.DeadlineMS)*time.Millisecond
	return rec, err
}

func (d *decisionRecord) public(stat *zkclient.Stat) Decision {
	return Decision{Approved: d.Approved, Force: d.Force, By: d.By, Reason: d.Reason, Identity: d.Identity, At: time.UnixMilli(stat.Mtime).UTC()}
}

func (n approvalNode) public() Approval {
	a := Approval{
		ID: n.id, ApprovalRequest: n.rec.ApprovalRequest, By: n.rec.By, Host: n.rec.Host, PID: n.rec.PID,
		Opened: time.UnixMilli(n.stat.Ctime).UTC(),
	}
	if a.Deadline > 0 {
		a.Until = a.Opened.Add(a.Deadline)
	}
	if n.rec.Decision != nil {
		a.Decision = new(n.rec.Decision.public(n.stat))
	}
	return a
}

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
func (b *ApprovalBoard) list(ctx context.Context, s *zkclient.Session) (nodes []approvalNode, left []zkclient.Unreadable, err error) {
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

// NoApprovalError is returned for a question that is not there, or not any more:
// it was withdrawn, or the process that asked has gone.
type NoApprovalError struct {
	ID       string
	Workflow bool // Approval.Workflow

	Open []string // those that wait for a decision, if that was looked up

	// Sent: the decision was sent, ZooKeeper did not answer, and the question has
	// gone since: who asked may have acted on it.
	Sent bool
}

func (e *NoApprovalError) Error() string {
	if e.Sent {
		return fmt.Sprintf("approval %q may be decided: ZooKeeper did not answer to the decision, and the question has gone since, maybe because of it; look what has become of the request: lockkeeper audit", e.ID)
	}
	why := "the request has got its lock, was given up, or its process has gone"
	if e.Workflow {
		why = "the request has got its lock, or was given up"
	}
	s := fmt.Sprintf("there is no approval %q, or not any more: %s", e.ID, why)
	if len(e.Open) > 0 {
		s += "; open are " + strings.Join(e.Open, ", ")
	}
	return s
}

// DecidedError is returned for a question that has been decided already.
type DecidedError struct {
	ID       string
	Decision Decision
}

func (e *DecidedError) Error() string {
	s := fmt.Sprintf("approval %q was %s already, by %s", e.ID, e.Decision.Word(), e.Decision.By)
	if e.Decision.Identity != "" {
		s += " (" + e.Decision.Identity + ")"
	}
	return fmt.Sprintf("%s at %s", s, e.Decision.At.Format(time.RFC3339))
}

// NotAQuestion says why a node does not belong on the board.
const NotAQuestion = "its name is no question's"

// CheckApproval returns a *RecordError for data of a question that cannot be read.
func CheckApproval(data []byte) error {
	_, err := decodeApproval(data)
	return err
}
