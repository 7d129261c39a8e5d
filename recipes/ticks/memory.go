package ticks

import (
	"bytes"
	"compress/flate"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// tickMemory is what a ledger remembers of a job to save requests. Being wrong
// costs a request: the node's version decides.
type tickMemory struct {
	used    time.Time
	last    time.Time // decided up to here
	seen    int32     // the version that said so
	waiting int

	data    []byte // the record as this ledger wrote it last; nil: others have written since, perhaps
	packed  bool   // data is
	version int32
	mtime   int64

	failed  int // calls, counted from anywhere
	settled int // of which a later call has put right what they left
}

// memory returns what is remembered of a job. The caller holds l.mu.
func (l *Ledger) memory(job string) *tickMemory {
	now := time.Now()
	m := l.jobs[job]
	if m == nil {
		l.tidy(now)
		m = &tickMemory{failed: l.failed, settled: l.failed}
		l.jobs[job] = m
	}
	m.used = now
	return m
}

// Jobs come and go in a process that runs for long. One that was unused for
// more than a day may have gone for good; if not, a read at its next tick is
// what it costs.
const (
	tickForget = 25 * time.Hour
	tickTidy   = time.Hour // how often that is looked at, at most
)

// tidy forgets jobs that were unused for long, unless calls for them have
// failed and what they left is not put right. The caller holds l.mu.
func (l *Ledger) tidy(now time.Time) {
	if now.Sub(l.tidied) < tickTidy {
		return
	}
	l.tidied = now
	for job, m := range l.jobs {
		if now.Sub(m.used) > tickForget && m.failed == m.settled {
			l.drop(m)
			l.failed = max(l.failed, m.failed)
			delete(l.jobs, job)
		}
	}
}

// saw takes note of a record that was read.
func (l *Ledger) saw(job string, rec *tickRecord, version int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.memory(job)
	if version >= m.seen { // else an answer that has come late
		m.last, m.waiting, m.seen = rec.decided(), len(rec.Waiting), version
	}
}

// wrote takes note of a record that this ledger has written.
func (l *Ledger) wrote(job string, rec *tickRecord, data []byte, stat *zkclient.Stat) {
	l.saw(job, rec, stat.Version)
	l.mu.Lock()
	m := l.memory(job)
	room := maxPlain - l.plain
	if !m.packed {
		room += len(m.data)
	}
	packed := len(data) > room && len(rec.Runs) == 0 // else the next write is near
	l.mu.Unlock()
	if packed {
		data = pack(data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.data == nil || stat.Version > m.version {
		l.drop(m)
		m.data, m.packed, m.version, m.mtime = data, packed, stat.Version, stat.Mtime
		if !packed {
			l.plain += len(data)
		}
	}
}

// maxPlain bounds what is remembered as it is, in bytes: that of some thousand
// jobs, apart from those that run. What is more is packed, which takes a quarter
// of the room, and time.
const maxPlain = 8 << 20

// drop forgets the record. The caller holds l.mu.
func (l *Ledger) drop(m *tickMemory) {
	if !m.packed {
		l.plain -= len(m.data)
	}
	m.data, m.packed = nil, false
}

// forget makes the next call look.
func (l *Ledger) forget(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(l.memory(job))
}

// recall returns the record as this ledger wrote it last, with its own runs
// alive, or nil: for a write that fails if others have written since. Whether
// runs of others live cannot be remembered: strangers says that it does not
// matter.
func (l *Ledger) recall(job string, strangers bool) *tickView {
	l.mu.Lock()
	m := l.jobs[job]
	if m == nil || m.data == nil {
		l.mu.Unlock()
		return nil
	}
	data, packed, stat := m.data, m.packed, &zkclient.Stat{Version: m.version, Mtime: m.mtime}
	l.mu.Unlock()
	if packed {
		var err error
		if data, err = unpack(data); err != nil {
			return nil
		}
	}
	rec, err := decodeTick(data, stat)
	if err != nil {
		return nil
	}
	v := &tickView{record: rec, stat: stat}
	for i := range rec.Runs {
		n := &rec.Runs[i]
		switch {
		case l.mine(&rec, n):
			v.markers = append(v.markers, n.ID)
		case !strangers:
			return nil
		}
	}
	slices.Sort(v.markers)
	return v
}

// taken answers a claim of what is known to be decided. Not while a call that
// failed may have claimed it without a reply, nor while the last instant is
// still to come: then an operator may have set it back.
func (l *Ledger) taken(job string, instant time.Time) (Claim, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.jobs[job]
	if m == nil || instant.After(m.last) || m.failed != m.settled || l.ahead(m.last) > 0 {
		return Claim{}, false
	}
	return Claim{Verdict: Taken, Last: m.last, Waiting: m.waiting}, true
}

// failing takes note of a call that has failed, perhaps after it was executed.
func (l *Ledger) failing(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.memory(job)
	l.drop(m)
	m.failed++
}

// failures returns how many calls for job have failed.
func (l *Ledger) failures(job string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.jobs[job]; m != nil {
		return m.failed
	}
	return 0
}

// settled takes note that what those calls left behind was put right.
func (l *Ledger) settled(job string, failures int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.memory(job)
	m.settled = max(m.settled, failures)
}

// --- packing ------------------------------------------------------------------

// A process may have ten thousand jobs, and a history says nearly the same 32
// times.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // a constant level
	}
	return w
}}

func pack(data []byte) []byte {
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	_, _ = w.Write(data) // a buffer takes all
	_ = w.Close()
	return bytes.Clone(b.Bytes())
}

var unpackers = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

func unpack(packed []byte) ([]byte, error) {
	r := unpackers.Get().(io.ReadCloser)
	defer unpackers.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(packed), nil); err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
