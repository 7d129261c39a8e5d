package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A FileReport is what VerifyFile has found.
type FileReport struct {
	Checked   int   // records of the chain
	From, To  int64 // their numbers; 0 if there are none
	Compared  int   // of these, how many ZooKeeper has as well
	Unchained int   // records of this file alone: ZooKeeper did not answer
	Torn      int   // lines that were not written to their end, and are there again

	// Gaps are records that were removed from ZooKeeper before they could be
	// shipped, from the first to the last.
	Gaps [][2]int64

	// Broken is the first thing that is wrong; nil: nothing is.
	Broken *FileBrokenError
}

// A FileBrokenError says where a file of records is not what was shipped.
type FileBrokenError struct {
	Line  int   // 0: it is about the end of the file
	Seq   int64 // of the record; 0 if it is about none
	Fault opstore.AuditFault
	Why   string
}

func (e *FileBrokenError) Error() string {
	return fmt.Sprintf("audit file: broken at line %d, record %d, %s: %s", e.Line, e.Seq, e.Fault, e.Why)
}

// VerifyFile checks that the records in a file of Config.File form a chain, as
// opstore.AuditLog.Verify does for those in ZooKeeper, and that they are the
// same where both have one. Without a trail it looks at the file alone. An error
// says that the file or ZooKeeper could not be read.
func VerifyFile(ctx context.Context, name string, trail *opstore.AuditLog) (FileReport, error) {
	v := &fileVerification{}
	if trail != nil {
		kept, _, err := trail.Read(ctx, opstore.AuditQuery{})
		if err != nil {
			return FileReport{}, err
		}
		v.expect(kept)
	}
	f, err := os.Open(name)
	if err != nil {
		return FileReport{}, err
	}
	defer f.Close()
	if err := v.read(f); err != nil {
		return FileReport{}, fmt.Errorf("%s: %w", name, err)
	}
	if trail != nil && v.report.Broken == nil {
		last, err := trail.Last(ctx)
		if err != nil {
			return FileReport{}, err
		}
		if last < v.report.To {
			v.broken(0, last, opstore.AuditHeadMismatch,
				"the newest record in ZooKeeper is %d, and the file has records up to %d", last, v.report.To)
		}
	}
	return v.report, nil
}

// fileVerification is one walk along a file.
type fileVerification struct {
	report FileReport
	kept   map[int64]string // hashes of what ZooKeeper has, and of the one before
	oldest int64            // the one before

	next int64  // number of the next record; 0: any
	prev string // hash of the one before; "": it is not known
}

func (v *fileVerification) expect(kept []opstore.AuditRecord) {
	v.kept = make(map[int64]string, len(kept)+1)
	for i, r := range kept {
		if i == 0 {
			v.oldest = r.Seq - 1
			v.kept[r.Seq-1] = r.Prev
		}
		v.kept[r.Seq] = r.Hash
	}
}

func (v *fileVerification) broken(line int, seq int64, fault opstore.AuditFault, format string, args ...any) {
	if v.report.Broken == nil {
		v.report.Broken = &FileBrokenError{line, seq, fault, fmt.Sprintf(format, args...)}
	}
}

func (v *fileVerification) read(f io.Reader) error {
	lines := bufio.NewReader(f)
	for n := 1; v.report.Broken == nil; n++ {
		line, err := lines.ReadBytes('\n')
		if text := bytes.TrimSuffix(line, []byte{'\n'}); len(text) > 0 {
			v.line(n, text)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (v *fileVerification) line(n int, text []byte) {
	r, err := opstore.ParseAuditRecord(text)
	switch {
	case err == nil:
		v.record(n, r)
	case errors.Is(err, opstore.ErrAuditAltered):
		v.broken(n, r.Seq, opstore.AuditAltered, "%v", err)
	default:
		v.other(n, text)
	}
}

func (v *fileVerification) record(n int, r opstore.AuditRecord) {
	switch {
	case v.next != 0 && r.Seq > v.next:
		v.broken(n, v.next, opstore.AuditMissing, "record %d comes next", r.Seq)
	case v.next != 0 && r.Seq < v.next:
		v.broken(n, r.Seq, opstore.AuditOutOfOrder, "record %d belongs here", v.next)
	case v.prev != "" && r.Prev != v.prev:
		v.broken(n, r.Seq, opstore.AuditAltered, "it does not continue record %d", r.Seq-1)
	}
	if hash, ok := v.kept[r.Seq]; ok && hash != r.Hash {
		v.broken(n, r.Seq, opstore.AuditAltered, "ZooKeeper has another record under this number")
	}
	if v.report.Broken != nil {
		return
	}
	if _, ok := v.kept[r.Seq]; ok && r.Seq != v.oldest {
		v.report.Compared++
	}
	if v.report.Checked == 0 {
		v.report.From = r.Seq
	}
	v.report.Checked, v.report.To = v.report.Checked+1, r.Seq
	v.next, v.prev = r.Seq+1, r.Hash
}

// other is a line that is no record of the chain.
func (v *fileVerification) other(n int, text []byte) {
	var line struct {
		Unchained bool    `json:"unchained"`
		Gap       *gap    `json:"gap"`
		Broken    *broken `json:"broken"`
	}
	switch err := json.Unmarshal(text, &line); {
	case err != nil:
		v.report.Torn++ // if it was a record, it is missing unless it comes again
	case line.Unchained:
		v.report.Unchained++
	case line.Gap != nil:
		if v.next != 0 && line.Gap.From != v.next {
			v.broken(n, v.next, opstore.AuditMissing, "a gap from record %d to %d comes next", line.Gap.From, line.Gap.To)
			return
		}
		v.report.Gaps = append(v.report.Gaps, [2]int64{line.Gap.From, line.Gap.To})
		v.next, v.prev = line.Gap.To+1, ""
	case line.Broken != nil:
		v.broken(n, line.Broken.Seq, line.Broken.Fault,
			"it was so when it was shipped, at %s: %s", line.Broken.At.Format("2006-01-02 15:04:05 UTC"), line.Broken.Why)
	default:
		v.broken(n, 0, opstore.AuditAltered, "it is no line of an audit trail")
	}
}
