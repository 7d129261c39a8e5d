package znode

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// RecordError is returned for a node whose data this program cannot use: a newer
// program has written them, or something that is none of ours. They are never
// overwritten.
type RecordError struct {
	Node   string // "" when not known
	Format int    // of the newer program's record; 0: it is no record
	Err    error  // why it cannot be read; nil for a newer one

	knows int // the newest format of such records
}

func (e *RecordError) Error() string {
	at := ""
	if e.Node != "" {
		at = " at " + e.Node
	}
	if e.Format != 0 {
		return fmt.Sprintf("lockkeeper: the record in ZooKeeper%s has format %d, this program knows %d; upgrade it",
			at, e.Format, max(e.knows, RecordFormat))
	}
	return fmt.Sprintf("lockkeeper: unreadable record in ZooKeeper%s: %v; another program has written there: "+
		"put it right, or delete the node if it is none of ours", at, e.Err)
}

// Unwrap returns why it cannot be read.
func (e *RecordError) Unwrap() error { return e.Err }

// InNode says which node it was, if err is about what stands in one.
func InNode(err error, node string) error {
	if e, ok := errors.AsType[*RecordError](err); ok && e.Node == "" {
		return &RecordError{Node: node, Format: e.Format, Err: e.Err, knows: e.knows}
	}
	return err
}

// IsNewer reports whether a newer program has written what cannot be read.
func IsNewer(err error) bool {
	e, ok := errors.AsType[*RecordError](err)
	return ok && e.Format != 0
}

// Encode writes a record: plain data only.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("lockkeeper: record cannot be encoded: %v", err)) // plain data only
	}
	return b
}

// Decode reads a record of the present format. The error is a *RecordError without the node.
func Decode(data []byte, v any, format *int) error { return DecodeUpTo(RecordFormat, data, v, format) }

var errEmpty = errors.New("it is empty")

// DecodeUpTo reads a record of any format up to the newest. The error is a
// *RecordError without the node.
func DecodeUpTo(newest int, data []byte, v any, format *int) error {
	err := json.Unmarshal(data, v)
	if len(data) == 0 {
		err = errEmpty
	}
	if err == nil && *format >= RecordFormat && *format <= newest {
		return nil
	}
	// A newer one may have other things in the same places.
	var its struct {
		Format json.RawMessage `json:"format"`
	}
	_ = json.Unmarshal(data, &its) // as far as that goes
	if n, atoi := strconv.Atoi(string(its.Format)); atoi == nil && n > newest && json.Valid(data) {
		return &RecordError{Format: n, knows: newest}
	}
	if err == nil {
		err = errors.New("it does not say which format it has")
	}
	return &RecordError{Err: err}
}

// Milliseconds is the duration of a number that stands in a record; what is too
// long is the longest there is.
func Milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}

// SomeMilliseconds is Milliseconds of a number that need not be there.
func SomeMilliseconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	return new(Milliseconds(*n))
}

// Millis is a duration that need not be there as a record has it.
func Millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

// RecordTime is the time of a number that stands in a record; what is too far away is
// moved to where it can still be written down, also with a duration added.
func RecordTime(ms int64) time.Time {
	const year3000 = 32_503_680_000_000
	return time.UnixMilli(max(0, min(ms, year3000)))
}

// Writable is a time that stands in a record, in UTC. JSON writes the years 0 to 9999
// alone; what is outside of these is moved to their edge.
func Writable(t time.Time) time.Time {
	t = t.UTC()
	switch y := t.Year(); {
	case y > 9999:
		return time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	case y < 0:
		return time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return t
}

// Valid is a text without bytes that are no UTF-8.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// RecordFormat is the version of what is written into znodes. A reader refuses
// a newer one rather than guess.
const RecordFormat = 1

// maxUnreadable bounds what a reason quotes of a record.
const maxUnreadable = 200

// Reason is what is wrong with a record, without where it stands.
func (e *RecordError) Reason() string {
	if e.Format != 0 {
		return fmt.Sprintf("it has format %d, this program knows %d; upgrade this program",
			e.Format, max(e.knows, RecordFormat))
	}
	return fmt.Sprintf("it cannot be read: %s; another program has written there: "+
		"put it right, or delete the node if it is none of ours", words.Clip(e.Err.Error(), maxUnreadable))
}
