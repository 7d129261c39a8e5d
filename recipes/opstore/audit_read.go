package opstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// AuditQuery says which records of the audit trail are wanted. The zero value
// wants all that are kept.
type AuditQuery struct {
	Since time.Time // by the records' own time; zero: from the oldest on
	From  int64     // the lowest number; 0: from the oldest on
	Limit int       // how many at most, the newest; 0: all

	// Scope is a pattern as in override.Match. "": any, and those without one.
	Scope string

	// By is part of who did it, or of the identity that ZooKeeper knows, in upper
	// or lower case. "": any.
	By string
}

// Wants reports whether a record is wanted, as far as Since, Scope and By say.
func (q AuditQuery) Wants(r AuditRecord) bool {
	by := strings.ToLower(q.By)
	switch {
	case r.At.Before(q.Since):
	case q.Scope != "" && !(override.Match{Scope: q.Scope}).Fits(override.Subject{Scope: r.Scope}, 0):
	case by != "" && !strings.Contains(strings.ToLower(r.By), by) && !strings.Contains(strings.ToLower(r.Identity), by):
	default:
		return true
	}
	return false
}

// How records are read: many at once, the newest first.
const (
	auditBatch    = 128
	auditParallel = 16
)

// auditClocks is how far the clocks may be apart by which records have their
// time.
const auditClocks = time.Minute

// Read returns the records that are wanted, the oldest first, and those that
// cannot be read among the ones that it had to look at. What was taken away is
// left out, and what was altered is not marked: Verify does that.
func (l *AuditLog) Read(
	ctx context.Context, q AuditQuery,
) (found []AuditRecord, left []zkclient.Unreadable, err error) {
	head, err := l.headNow(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("audit trail not read: %w", err)
	}
	least := max(head.First, q.From)
	for last := head.Seq; last >= least; last -= auditBatch {
		first := max(least, last-auditBatch+1)
		batch, err := l.batch(ctx, first, last)
		if err != nil {
			return nil, nil, fmt.Errorf("audit trail not read: %w", err)
		}
		older := false
		for i, node := range slices.Backward(batch) { // the newest first
			if node.Stat == nil && node.denied == nil {
				continue
			}
			path := l.node(first + int64(i))
			r, err := node.read()
			if bad, isBad := zkclient.LeftOut(err, path, ""); isBad {
				left = append(left, bad)
				continue
			}
			older = older || r.At.Before(q.Since.Add(-auditClocks))
			if q.Wants(r) {
				found = append(found, r)
			}
			if q.Limit > 0 && len(found) == q.Limit {
				older = true
				break
			}
		}
		if older {
			break
		}
	}
	slices.Reverse(found)
	return found, zkclient.ByPath(left), nil
}

// Last returns the number of the newest record, 0 if there is none.
func (l *AuditLog) Last(ctx context.Context) (int64, error) {
	head, err := l.headNow(ctx)
	if err != nil {
		return 0, fmt.Errorf("audit trail not read: %w", err)
	}
	return head.Seq, nil
}

// headNow is head for a caller that must not wait while ZooKeeper is known not
// to answer.
func (l *AuditLog) headNow(ctx context.Context) (auditSight, error) {
	if _, err := l.c.Admit(ctx); err != nil {
		return auditSight{}, err
	}
	return l.head(ctx)
}

// An auditNode is the node of a record. One that is not there has neither a stat
// nor an error.
type auditNode struct {
	zkclient.NodeData
	denied error // *AccessError
}

// read returns the record, altered or not. The error is a *RecordError or an
// *AccessError.
func (n auditNode) read() (AuditRecord, error) {
	if n.denied != nil {
		return AuditRecord{}, n.denied
	}
	r, err := readAuditRecord(n.Data)
	if err != nil {
		err = &znode.RecordError{Err: err}
	}
	return r, err
}

// batch reads the records from first to last.
func (l *AuditLog) batch(ctx context.Context, first, last int64) ([]auditNode, error) {
	nodes := make([]auditNode, max(0, last-first+1))
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(auditParallel)
	for i := range nodes {
		work.Go(func() error {
			data, stat, err := l.c.Get(inner, l.node(first+int64(i)))
			switch {
			case errors.Is(err, zkclient.ErrNoNode):
				return nil
			case errors.As(err, new(*zkclient.AccessError)):
				nodes[i].denied = err
				return nil
			case err != nil:
				return err
			}
			nodes[i].NodeData = zkclient.NodeData{Data: data, Stat: stat}
			return nil
		})
	}
	return nodes, work.Wait()
}

// Follow calls f with each record from the number from on, one at a time and in
// order, as they are appended; 0 is the oldest that is kept. It returns when ctx
// ends, with its cause, when f returns an error, with that one, and when the next
// record cannot be had: an *AuditGapError says that it was removed because no
// more are kept, an *AuditBrokenError that the log was tampered with. Both say
// where to go on.
//
// Nothing is left out, passed twice, or passed in another order, whatever
// happens to the connection. Records whose hash is wrong are not marked: Verify
// and ParseAuditRecord do that.
func (l *AuditLog) Follow(ctx context.Context, from int64, f func(AuditRecord) error) error {
	next := from
	var end error // of f, or of what is there to read; not of the connection
	err := l.c.Await(ctx, l.path, false, func(sight zkclient.NodeSight) (bool, error) {
		head, err := decodeAuditHead(sight.Data, sight.Stat)
		if err != nil {
			if bad, ok := errors.AsType[*AuditBrokenError](err); ok {
				bad.next = next
			}
			end = znode.InNode(err, l.path)
			return true, nil
		}
		if next == 0 {
			next = head.First
		}
		if next > head.Seq+1 {
			end = &AuditBrokenError{
				Seq: next, Fault: AuditHeadMismatch,
				Why: fmt.Sprintf("the head says that record %d is the newest, and there were more", head.Seq), next: head.First,
			}
			return true, nil
		}
		for next <= head.Seq {
			if next < head.First {
				end = &AuditGapError{From: next, To: head.First - 1}
				return true, nil
			}
			batch, err := l.batch(ctx, next, min(head.Seq, next+auditBatch-1))
			if err != nil {
				return false, err
			}
			for _, node := range batch {
				if end = l.tell(ctx, next, node, f); end != nil {
					return true, nil //nolint:nilerr // told as end
				}
				next++
			}
		}
		return false, nil
	})
	if end != nil {
		return end
	}
	return err
}

// tell calls f with a record.
func (l *AuditLog) tell(ctx context.Context, seq int64, node auditNode, f func(AuditRecord) error) error {
	switch {
	case node.denied != nil:
		return &AuditBrokenError{Seq: seq, Fault: AuditAltered, Why: zkclient.WhyDenied, next: seq + 1}
	case node.Stat == nil:
		return l.gone(ctx, seq)
	}
	r, err := readAuditRecord(node.Data)
	if err != nil {
		return &AuditBrokenError{Seq: seq, Fault: AuditAltered, Why: err.Error(), next: seq + 1}
	}
	return f(r)
}

// gone says why a record is not there that was.
func (l *AuditLog) gone(ctx context.Context, seq int64) error {
	head, err := l.head(ctx)
	switch {
	case err != nil:
		return err
	case seq < head.First:
		return &AuditGapError{From: seq, To: head.First - 1}
	}
	return &AuditBrokenError{Seq: seq, Fault: AuditMissing, Why: "it was taken away", next: seq + 1}
}

// AuditGapError is returned by Follow when records were removed before they could
// be read, because no more are kept.
type AuditGapError struct {
	From, To int64 // the numbers of the first and the last that are missing
}

func (e *AuditGapError) Error() string {
	return fmt.Sprintf("audit trail: records %d to %d are not kept any more; go on with record %d", e.From, e.To, e.To+1)
}
