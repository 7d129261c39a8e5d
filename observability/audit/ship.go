package audit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// How long the shipping waits: for another process that does it, and after a
// failure.
const (
	standBy    = 2 * time.Second
	afterError = time.Second
	longestOff = time.Minute
)

// A shipping is the way of the trail into the file.
type shipping struct {
	file  *file
	trail Trail

	next int64  // the number of the next record; 0: the oldest that is kept
	prev string // hash of the record before; "": it is not known
	said string // what was noted last, unless a record has come since
}

// ship follows the trail until ctx ends.
func (f *file) ship(ctx context.Context, trail Trail) {
	s := &shipping{file: f, trail: trail}
	pause := afterError
	for ctx.Err() == nil {
		began := time.Now()
		err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			continue
		case errors.Is(err, errTaken):
			s.next, s.prev = 0, "" // the other one goes on from here
			wait(ctx, standBy)
			continue
		}
		if time.Since(began) > longestOff {
			pause = afterError
		}
		f.logger.Error("the audit trail cannot be shipped to its file, trying on",
			"file", f.name, "next", s.next, "error", err)
		wait(ctx, pause)
		pause = min(2*pause, longestOff)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// once ships until something comes between; nil: it has been noted.
func (s *shipping) once(ctx context.Context) error {
	if ours, err := s.file.take(); err != nil {
		return err
	} else if !ours {
		return errTaken
	}
	if err := s.resume(); err != nil {
		return err
	}
	err := s.trail.Follow(ctx, s.next, s.add)
	if gone, ok := errors.AsType[*opstore.AuditGapError](err); ok {
		return s.note(gapLine{gap{gone.From, gone.To, now()}}, gone.To+1, gone)
	}
	if bad, ok := errors.AsType[*opstore.AuditBrokenError](err); ok && bad.Error() != s.said { // else it is still so
		return s.note(brokenLine{broken{bad.Seq, bad.Fault, bad.Why, now()}}, bad.Next(), bad)
	}
	return err
}

// resume goes on where the file ends.
func (s *shipping) resume() error {
	if s.next > 0 {
		return nil
	}
	last, found, err := s.file.last()
	if err == nil && found {
		s.next, s.prev = last.Seq+1, last.Hash
	}
	return err
}

// add ships one record.
func (s *shipping) add(r opstore.AuditRecord) error {
	if s.prev != "" && r.Prev != s.prev {
		err := s.note(brokenLine{broken{
			r.Seq, opstore.AuditAltered, "it does not continue the record that was shipped before it", now(),
		}},
			r.Seq, errors.New("a record does not continue the one before: verify the trail with its file"))
		if err != nil {
			return err
		}
	}
	if err := s.file.shipLine(r.Line()); err != nil {
		return err
	}
	s.next, s.prev, s.said = r.Seq+1, r.Hash, ""
	return nil
}

// note says in the file what is missing or wrong, and goes on behind it.
func (s *shipping) note(line any, next int64, why error) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := s.file.shipLine(text); err != nil {
		return err
	}
	s.file.logger.Error("the audit trail in the file has gaps", "file", s.file.name, "error", why)
	s.next, s.prev, s.said = next, "", why.Error()
	return nil
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
