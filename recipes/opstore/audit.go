package opstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// How many records of the audit trail are kept in ZooKeeper.
const (
	DefaultAuditKeep = 10_000
	MaxAuditKeep     = 15_000 // their names have to fit into one answer of ZooKeeper, see jute.maxbuffer
)

// An AuditLog is the audit trail: records that are appended and never changed,
// each with the hash of the one before. All clients of one root write the same.
//
//	<root>/audit                  the head: number and hash of the newest record, and of the oldest that is kept
//	<root>/audit/log/0000000001   a record, one line of JSON
//
// A record is appended in one transaction that sets the head under the version
// that was read, creates the record, and removes the oldest beyond those that
// are kept. So there is one chain without gaps, whichever clients append. A
// client that changes, removes or inserts a record breaks it: see Verify.
//
// The nodes are for those who may use the root, see Config.Auth: one of these can
// forge the whole chain, with much patience, but not the copies of it that were
// shipped elsewhere, see Follow.
type AuditLog struct {
	c    *zkclient.Client
	path string // of the head
	keep int64
	turn chan struct{} // who appends: one at a time, others would only be in each other's way
}

// NewAuditLog returns the audit trail of a client's root, of which this client keeps that
// many records: at most MaxAuditKeep, 0 for DefaultAuditKeep. Clients should
// agree on it, the least counts. It returns a *RequestError for another number.
func NewAuditLog(c *zkclient.Client, keep int) (*AuditLog, error) {
	switch {
	case keep == 0:
		keep = DefaultAuditKeep
	case keep < 0 || keep > MaxAuditKeep:
		return nil, &zkclient.RequestError{
			Field: "keep",
			Reason: fmt.Sprintf("%d is out of range; write 1 to %d, or leave it out for %d",
				keep, MaxAuditKeep, DefaultAuditKeep),
		}
	}
	return &AuditLog{c: c, path: c.Root() + "/audit", keep: int64(keep), turn: make(chan struct{}, 1)}, nil
}

// auditHeadRecord is the data of the head. The data version of its node is the
// number of the newest record: each append sets it once.
type auditHeadRecord struct {
	Format int    `json:"format"`
	Seq    int64  `json:"seq"`    // of the newest record; 0: there is none
	Hash   string `json:"hash"`   // of the newest record
	First  int64  `json:"first"`  // the oldest record that is kept
	Anchor string `json:"anchor"` // hash of the one before that; "" when there was none
}

// auditSight is the head as read. stat is nil when there is none.
type auditSight struct {
	auditHeadRecord
	stat *zkclient.Stat
}

func decodeAuditHead(data []byte, stat *zkclient.Stat) (s auditSight, err error) {
	s.auditHeadRecord, s.stat = auditHeadRecord{Format: znode.RecordFormat, First: 1}, stat
	if len(data) == 0 {
		return s, nil
	}
	s.Format = 0 // it has to say
	if err := znode.Decode(data, &s.auditHeadRecord, &s.Format); err != nil {
		return s, fmt.Errorf("head of the audit trail: %w", err)
	}
	if s.First < 1 || s.First > s.Seq+1 || s.Seq-s.First > MaxAuditKeep { // else its readers loop for ever
		return s, &AuditBrokenError{
			Seq: s.Seq, Fault: AuditHeadMismatch,
			Why: fmt.Sprintf("the head says that record %d is the oldest, and %d the newest, and that cannot be",
				s.First, s.Seq),
		}
	}
	return s, nil
}

func (l *AuditLog) head(ctx context.Context) (auditSight, error) {
	data, stat, err := l.c.Get(ctx, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return decodeAuditHead(nil, nil)
	} else if err != nil {
		return auditSight{}, err
	}
	head, err := decodeAuditHead(data, stat)
	return head, znode.InNode(err, l.path)
}

func (l *AuditLog) records() string { return path.Join(l.path, "log") }

func (l *AuditLog) node(seq int64) string { return fmt.Sprintf("%s/log/%010d", l.path, seq) }

// auditSeq returns the number of the record that a node is named after.
func auditSeq(name string) (int64, bool) {
	seq, err := strconv.ParseInt(name, 10, 64)
	return seq, err == nil && seq > 0 && fmt.Sprintf("%010d", seq) == name
}

// Append puts an entry on record, once, and returns the record. Act is filled in
// when it is empty. Long texts are cut, and of very many victims or changes some
// are left out; the record says so.
//
// It tries on until ctx ends; then the entry may be on record all the same, if
// ZooKeeper did not answer. The error is a *RequestError for an entry without
// Action, Phase or By; an *UnavailableError when ZooKeeper is known not to
// answer, and nothing was sent; an *AccessError; an *AuditBrokenError when
// nothing can be appended because the log was tampered with.
func (l *AuditLog) Append(ctx context.Context, entry AuditEntry) (AuditRecord, error) {
	if err := entry.validate(); err != nil {
		return AuditRecord{}, err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return AuditRecord{}, l.notOnRecord(entry, context.Cause(ctx))
	}
	if _, err := l.c.Admit(ctx); err != nil {
		return AuditRecord{}, l.notOnRecord(entry, err)
	}
	r, err := l.append(ctx, entry.fit())
	if err != nil {
		return AuditRecord{}, l.notOnRecord(entry, err)
	}
	return r, nil
}

func (l *AuditLog) notOnRecord(entry AuditEntry, err error) error {
	what := string(entry.Action)
	switch {
	case entry.Scope != "":
		what += " of " + strconv.Quote(entry.Scope)
	case entry.Job != "":
		what += " of job " + strconv.Quote(entry.Job)
	}
	return fmt.Errorf("audit trail: %s not put on record: %w", what, err)
}

func (e AuditEntry) validate() error {
	var errs []error
	missing := func(field, write string) {
		errs = append(errs, &zkclient.RequestError{Field: field, Reason: "is missing; write " + write})
	}
	if e.Action == "" {
		missing("action", "what is done, for example takeover")
	}
	if e.Phase != AuditIntent && e.Phase != AuditOutcome {
		missing("phase", "intent or outcome")
	}
	if e.By == "" {
		missing("by", "who does it")
	}
	return errors.Join(errs...)
}

func (l *AuditLog) append(ctx context.Context, entry AuditEntry) (AuditRecord, error) {
	if entry.Act == "" {
		entry.Act = znode.NewGUID()
	}
	id := znode.NewGUID()
	var unsure []int64 // the numbers under which it was sent, and no reply came
	for try := 0; ; try++ {
		if err := zkclient.PauseBefore(ctx, try); err != nil {
			return AuditRecord{}, err
		}
		head, err := l.head(ctx)
		if err != nil {
			return AuditRecord{}, err
		}
		for _, seq := range unsure {
			if seq > head.Seq {
				continue
			}
			r, done, err := l.isThere(ctx, seq, id)
			if done || err != nil {
				return r, err
			}
		}
		if head.stat == nil {
			if err := l.c.Ensure(ctx, l.records()); err != nil {
				return AuditRecord{}, err
			}
			continue
		}
		r := AuditRecord{
			Seq: head.Seq + 1, At: l.c.Now().UTC().Truncate(time.Millisecond), Prev: head.Hash, ID: id,
			Identity: l.c.Identity(), Host: l.c.Host(), PID: l.c.PID(), AuditEntry: entry,
		}.sealed()
		ops, err := l.transaction(ctx, head, r)
		if err != nil {
			return AuditRecord{}, err
		}
		_, err = l.c.Multi(ctx, ops...)
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, zkclient.ErrNodeExists):
			if err := l.beyond(ctx, r.Seq); err != nil {
				return AuditRecord{}, err
			}
		case errors.Is(err, zkclient.ErrNoNode):
			if err := l.c.Ensure(ctx, l.records()); err != nil {
				return AuditRecord{}, err
			}
		case errors.Is(err, zkclient.ErrBadVersion): // another process was faster
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			unsure = append(unsure, r.Seq)
		default:
			return AuditRecord{}, err
		}
	}
}

// isThere looks whether a record is the one with that id.
func (l *AuditLog) isThere(ctx context.Context, seq int64, id string) (r AuditRecord, yes bool, err error) {
	r, there, err := l.record(ctx, seq)
	if err == nil && !there {
		err = errors.New("ZooKeeper did not answer, and so many records were appended since " +
			"that it is unknown whether it is there")
	}
	return r, r.ID == id, err
}

// record reads one record, whether altered or not; an unreadable one is empty.
func (l *AuditLog) record(ctx context.Context, seq int64) (r AuditRecord, there bool, err error) {
	data, _, err := l.c.Get(ctx, l.node(seq))
	if errors.Is(err, zkclient.ErrNoNode) {
		return AuditRecord{}, false, nil
	} else if err != nil {
		return AuditRecord{}, false, err
	}
	r, _ = readAuditRecord(data)
	return r, true, nil
}

// trimAtOnce is how many records one append removes at most.
const trimAtOnce = 32

// transaction appends r behind head.
func (l *AuditLog) transaction(ctx context.Context, head auditSight, r AuditRecord) ([]any, error) {
	next := auditHeadRecord{Format: znode.RecordFormat, Seq: r.Seq, Hash: r.Hash, First: head.First, Anchor: head.Anchor}
	var trimmed []any
	for range min(r.Seq-head.First+1-l.keep, trimAtOnce) {
		oldest, there, err := l.record(ctx, next.First)
		if err != nil {
			return nil, err
		}
		if there { // else it was removed, as Verify could tell until now
			trimmed = append(trimmed, &zkclient.DeleteRequest{Path: l.node(next.First), Version: -1})
		}
		next.First, next.Anchor = next.First+1, oldest.Hash
	}
	return append([]any{
		&zkclient.SetDataRequest{Path: l.path, Data: znode.Encode(next), Version: head.stat.Version},
		&zkclient.CreateRequest{Path: l.node(r.Seq), Data: r.line, Acl: l.c.ACLOf(l.node(r.Seq))},
	}, trimmed...), nil
}

// beyond looks why a record is there that the head does not know of.
func (l *AuditLog) beyond(ctx context.Context, seq int64) error {
	head, err := l.head(ctx)
	if err != nil || head.Seq >= seq {
		return err // another process was faster
	}
	return &AuditBrokenError{
		Seq: seq, Fault: AuditHeadMismatch,
		Why: fmt.Sprintf("the head says that record %d is the newest, and this one is there", head.Seq),
	}
}

// CheckAuditHead returns a *RecordError for data of the head that cannot be read. Whether it fits to the
// records is for Verify.
func CheckAuditHead(data []byte) error {
	_, err := decodeAuditHead(data, nil)
	if errors.As(err, new(*AuditBrokenError)) {
		return nil
	}
	return err
}

// CheckAuditNode returns a *RecordError for data of a record that cannot be read.
func CheckAuditNode(data []byte) error {
	_, err := auditNode{NodeData: zkclient.NodeData{Data: data}}.read()
	return err
}
