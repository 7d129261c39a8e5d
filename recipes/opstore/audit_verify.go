package opstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// An AuditFault is what is wrong with the audit trail.
type AuditFault string

// What can be wrong.
const (
	AuditAltered        AuditFault = "altered"         // a record does not say what it said when it was appended
	AuditMissing        AuditFault = "missing"         // a record was taken away
	AuditOutOfOrder     AuditFault = "out of order"    // a record stands where another one belongs
	AuditHeadMismatch   AuditFault = "head mismatch"   // the head does not belong to the newest record
	AuditAnchorMismatch AuditFault = "anchor mismatch" // the oldest record does not continue what was before it
)

// AuditBrokenError says where the chain of the audit trail is broken: it was
// changed by other means than Append.
type AuditBrokenError struct {
	Seq   int64 // of the first record that is wrong; with AuditHeadMismatch, of the newest
	Fault AuditFault
	Why   string

	next int64
}

func (e *AuditBrokenError) Error() string {
	return fmt.Sprintf("audit trail: broken at record %d, %s: %s", e.Seq, e.Fault, e.Why)
}

// Next returns the number of the record with which to go on: the one behind the
// fault, or the oldest when the head was set back.
func (e *AuditBrokenError) Next() int64 { return max(e.next, 1) }

// AuditReport is what Verify has found.
type AuditReport struct {
	Checked  int   // how many records are what they were, one after the other from the first on
	From, To int64 // their numbers; 0 if there are none

	// Broken is the first thing that is wrong; nil: nothing is.
	Broken *AuditBrokenError

	// Foreign are nodes that are no records, and are ignored.
	Foreign []string

	// Untrusted says who else than this client and the operators could have
	// written the whole log, as all clients can in an open deployment; nil: no
	// other, or there is no log.
	Untrusted *zkclient.UntrustedError
}

// Verify reads the whole log and checks that it is what was appended: each
// record has the hash of its text, its number and the hash of the one before,
// the oldest continues what is not kept any more, and the newest is the one
// that the head names. What ZooKeeper says of the nodes has to agree, as far as
// it cannot be chosen: no record was written twice, each is younger than the
// one before, and the head was written once for each, in the same transaction.
// So a record that was replaced together with its hash, and all that follow, is
// reported too, and a head that was set back. A log that was copied to other
// servers node by node is therefore reported as altered.
//
// An error says that the log could not be read, not that it is broken.
func (l *AuditLog) Verify(ctx context.Context) (AuditReport, error) {
	report, err := l.verify(ctx)
	if errors.As(err, &report.Broken) { // the head
		err = nil
	}
	if err == nil {
		err = l.c.Vouching(ctx, func(s *zkclient.Session) error { return l.vouch(ctx, s) })
		if errors.As(err, &report.Untrusted) || errors.Is(err, zkclient.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		return AuditReport{}, fmt.Errorf("audit trail not verified: %w", err)
	}
	return report, nil
}

// vouch returns an *UntrustedError if an identity other than this client's and the
// operators' could have written the log.
func (l *AuditLog) vouch(ctx context.Context, s *zkclient.Session) error {
	root, err := l.c.VouchRoot(ctx, s)
	if err != nil {
		return err
	}
	if err := l.c.VouchNode(ctx, s, root, l.path); err != nil {
		return err
	}
	return l.c.VouchMaker(ctx, s, root, l.records())
}

func (l *AuditLog) verify(ctx context.Context) (report AuditReport, err error) {
	if _, err := l.c.Admit(ctx); err != nil {
		return report, err
	}
	// The names first: what is appended later is newer than the head as read.
	names, _, err := l.c.List(ctx, l.records())
	if err != nil && !errors.Is(err, zkclient.ErrNoNode) {
		return report, err
	}
	head, err := l.head(ctx)
	if err != nil {
		return report, err
	}
	report.Foreign = slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool {
		_, ok := auditSeq(name)
		return ok
	})
	if len(report.Foreign) == 0 {
		report.Foreign = nil
	}
	v := &auditVerification{log: l, head: head, report: &report}
	if err := v.walk(ctx); err != nil || report.Broken != nil {
		return report, err
	}
	v.checkHead()
	if report.Broken == nil {
		err = v.checkNames(ctx, names)
	}
	return report, err
}

// auditVerification is one walk along the log.
type auditVerification struct {
	log    *AuditLog
	head   auditSight // when the walk began
	report *AuditReport

	prev   string         // hash of the record before the next one
	before *zkclient.Stat // its node; nil: it is not known
}

func (v *auditVerification) broken(seq int64, fault AuditFault, format string, args ...any) {
	v.report.Broken = &AuditBrokenError{Seq: seq, Fault: fault, Why: fmt.Sprintf(format, args...), next: seq + 1}
}

func (v *auditVerification) walk(ctx context.Context) error {
	first := v.head.First
	v.prev = v.head.Anchor
	for next := first; next <= v.head.Seq; {
		batch, err := v.log.batch(ctx, next, min(v.head.Seq, next+auditBatch-1))
		if err != nil {
			return err
		}
		for _, node := range batch {
			if node.denied != nil {
				return node.denied
			}
			if node.Stat == nil {
				if first, err = v.anew(ctx, next); err != nil || v.report.Broken != nil {
					return err
				}
				next = first // while this went on, what was read first has been removed
				break
			}
			if v.check(next, next == first, node); v.report.Broken != nil {
				return nil //nolint:nilerr // told in the report
			}
			next++
		}
	}
	return nil
}

// anew begins behind what was removed meanwhile, if that is why a record is not
// there.
func (v *auditVerification) anew(ctx context.Context, seq int64) (first int64, err error) {
	head, err := v.log.head(ctx)
	if err != nil {
		return 0, err
	}
	if seq >= head.First {
		v.broken(seq, AuditMissing, "it was taken away")
		return 0, nil
	}
	v.prev, v.before = head.Anchor, nil
	v.report.Checked, v.report.From, v.report.To = 0, 0, 0
	if head.First > v.head.Seq {
		v.head = head // nothing is left of what was there
	}
	return head.First, nil
}

// check looks at one record.
func (v *auditVerification) check(seq int64, first bool, node auditNode) {
	r, err := ParseAuditRecord(node.Data)
	switch {
	case err != nil:
		v.broken(seq, AuditAltered, "%v", err)
	case r.Seq != seq:
		v.broken(seq, AuditOutOfOrder, "record %d stands in its place", r.Seq)
	case r.Prev != v.prev && first && seq == 1:
		v.broken(seq, AuditAnchorMismatch, "the first record of all continues another one, or the head says so")
	case r.Prev != v.prev && first:
		v.broken(seq, AuditAnchorMismatch,
			"it is the oldest that is kept, and does not continue the one that the head says was before it")
	case r.Prev != v.prev:
		v.broken(seq, AuditAltered,
			"it does not continue record %d: one of the two was replaced, together with its hash", seq-1)
	case node.Stat.Version != 0:
		v.broken(seq, AuditAltered, "its node was written again after it was appended")
	case v.before != nil && node.Stat.Czxid <= v.before.Czxid:
		v.broken(seq-1, AuditAltered, "it was put in place after record %d", seq)
	default:
		if v.prev, v.before = r.Hash, node.Stat; v.report.Checked == 0 {
			v.report.From = seq
		}
		v.report.Checked, v.report.To = v.report.Checked+1, seq
	}
}

// checkHead compares the head with the newest record.
func (v *auditVerification) checkHead() {
	head := v.head
	switch {
	case head.stat == nil:
	case v.report.Checked == 0 && head.Seq > 0:
		v.broken(head.Seq, AuditHeadMismatch, "it says that no record is kept, and one always is")
	case head.Hash != v.prev:
		v.broken(head.Seq, AuditHeadMismatch, "the head has the hash of another record than the newest")
	case head.stat.Version != int32(head.Seq):
		v.broken(head.Seq, AuditHeadMismatch,
			"the head was written %d times, and has %d records", head.stat.Version, head.Seq)
	case v.before != nil && head.stat.Mzxid != v.before.Czxid:
		v.broken(head.Seq, AuditHeadMismatch, "the head was not written together with the newest record")
	}
}

// checkNames looks for records that the head does not know of.
func (v *auditVerification) checkNames(ctx context.Context, names []string) error {
	slices.SortFunc(names, strings.Compare)
	for _, name := range names {
		seq, ok := auditSeq(name)
		if !ok || seq <= v.head.Seq && seq >= v.head.First {
			continue
		}
		if _, there, err := v.log.record(ctx, seq); err != nil {
			return err
		} else if !there {
			continue // it was the oldest, until it was removed
		}
		v.broken(v.head.Seq, AuditHeadMismatch,
			"the head says that records %d to %d are there, and so is record %d", v.head.First, v.head.Seq, seq)
		return nil
	}
	return nil
}
