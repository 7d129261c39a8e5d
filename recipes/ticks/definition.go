package ticks

import (
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// A Definition is what a process means by the name of a job, as a fingerprint,
// and which one was seen with it last.
type Definition struct {
	Fingerprint string
	Owner       string
	Host        string
	PID         int
	First, Seen time.Time // when a daemon wanted a tick with it: first, and last; server's clock
}

// definitionNote is that in a job's record. Daemons of older versions drop it when
// they write: then a difference is found later.
type definitionNote struct {
	Fingerprint string    `json:"print"`
	Owner       string    `json:"owner,omitempty"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Tick        time.Time `json:"tick,omitzero"`   // the last one that was decided with it
	First       int64     `json:"first,omitempty"` // like Seen
	Seen        int64     `json:"seen,omitempty"`
	Missed      int       `json:"missed,omitempty"` // ticks that others have decided since
}

const (
	// maxDefinitions bounds how many definitions of a job are known.
	maxDefinitions = 4

	// A definition is forgotten when no process has wanted a tick with it for
	// definitionAge, and definitionTicks ticks were decided with others since.
	definitionAge   = 10 * time.Minute
	definitionTicks = 2

	// definitionRenewal is how often a process that gets no tick says that it
	// still has its definition.
	definitionRenewal = 5 * time.Minute
)

func (r *tickRecord) definition(fingerprint string) *definitionNote {
	i := slices.IndexFunc(r.Definitions, func(d definitionNote) bool { return d.Fingerprint == fingerprint })
	if i < 0 {
		return nil
	}
	return &r.Definitions[i]
}

// defined takes note of the definition with which a tick is decided, and forgets
// those that are not used any more.
func (r *tickRecord) defined(fingerprint string, self tickOwner, tick time.Time) {
	r.Definitions = slices.DeleteFunc(r.Definitions, func(d definitionNote) bool {
		return d.Fingerprint != fingerprint && d.Missed+1 >= definitionTicks &&
			r.written-d.Seen > definitionAge.Milliseconds()
	})
	for i := range r.Definitions {
		if d := &r.Definitions[i]; d.Fingerprint != fingerprint {
			d.Missed = min(d.Missed+1, definitionTicks)
		}
	}
	r.see(fingerprint, self, 0).Tick = tick
}

// outrun takes note of a definition that wanted a tick which was decided with
// another one: both are in use at one time. It reports whether that is news.
func (r *tickRecord) outrun(fingerprint string, self tickOwner, tick time.Time) bool {
	first, others := int64(0), false
	for _, d := range r.Definitions {
		if d.Fingerprint != fingerprint && !d.Tick.Before(tick) && d.Seen > 0 {
			first, others = max(first, d.Seen), true
		}
	}
	mine := r.definition(fingerprint)
	if !others || mine != nil && r.written-mine.Seen < definitionRenewal.Milliseconds() {
		return false
	}
	r.see(fingerprint, self, first)
	return true
}

// see makes the definition seen by the write to come. first is since when, if it
// is new; 0: since that.
func (r *tickRecord) see(fingerprint string, self tickOwner, first int64) *definitionNote {
	d := r.definition(fingerprint)
	if d == nil {
		if len(r.Definitions) == maxDefinitions {
			oldest := 0
			for i := range r.Definitions {
				if r.Definitions[i].Seen < r.Definitions[oldest].Seen {
					oldest = i
				}
			}
			r.Definitions = slices.Delete(r.Definitions, oldest, oldest+1)
		}
		r.Definitions = append(r.Definitions, definitionNote{Fingerprint: fingerprint, First: first})
		d = &r.Definitions[len(r.Definitions)-1]
	}
	d.Owner, d.Host, d.PID, d.Seen, d.Missed = self.Owner, self.Host, self.PID, 0, 0
	return d
}

func (r *tickRecord) stampDefinitions(mtime int64) {
	for i := range r.Definitions {
		d := &r.Definitions[i]
		if d.First == 0 {
			d.First = mtime
		}
		if d.Seen == 0 {
			d.Seen = mtime
		}
	}
}

// differing returns the definitions that were in use at the time of another one;
// with a fingerprint those at the time of that one. A definition that took the
// place of another one is not among them.
func (r *tickRecord) differing(fingerprint string) (found []Definition) {
	for i := range r.Definitions {
		d := &r.Definitions[i]
		if d.Fingerprint == fingerprint {
			continue
		}
		if slices.ContainsFunc(r.Definitions, func(o definitionNote) bool {
			return (fingerprint == "" || o.Fingerprint == fingerprint) && o.Fingerprint != d.Fingerprint &&
				ofOneVersion(o.Fingerprint, d.Fingerprint) && o.Seen >= d.First && d.Seen >= o.First
		}) {
			found = append(found, Definition{
				Fingerprint: d.Fingerprint, Owner: znode.Valid(d.Owner), Host: znode.Valid(d.Host), PID: d.PID,
				First: znode.RecordTime(d.First).UTC(), Seen: znode.RecordTime(d.Seen).UTC(),
			})
		}
	}
	return found
}

// ofOneVersion reports whether two fingerprints can be compared: what stands
// before the hyphen says what went into them.
func ofOneVersion(a, b string) bool {
	versionA, _, _ := strings.Cut(a, "-")
	versionB, _, _ := strings.Cut(b, "-")
	return versionA == versionB
}
