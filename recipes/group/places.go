package group

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A groupPlace is one lock as it stands in the assignment. All participants read
// all locks after each write, of which a group may have thousands: so it is read
// and written by hand, many times faster than by reflection.
type groupPlace struct {
	lock    string
	holders []placeHolder
	plan    []int // indices of names
	differs bool  // plan says who shall hold it; else it is who holds it
}

// A placeHolder is a holder of it: index of the member, token or 0.
type placeHolder struct {
	member   int64
	token    lock.Token
	revoking bool
}

// groupPlaces are the locks of an assignment, by name. In JSON they are an object:
//
//	{"g_1":{"h":[[0,4711],[1,4711,1]],"p":[0,2]}, …}
//
// In a row of h a third number other than 0 says that this one has to release; p
// is left out when it is who holds the lock.
type groupPlaces []groupPlace

// MarshalJSON implements json.Marshaler.
func (ps groupPlaces) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+32*len(ps))
	out = append(out, '{')
	for i, p := range ps {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendName(out, p.lock)
		out = append(out, ':')
		out = p.append(out)
	}
	return append(out, '}'), nil
}

// appendName appends a name as JSON.
func appendName(out []byte, name string) []byte {
	for i := range len(name) {
		switch b := name[i]; {
		case b < ' ', b > '~', b == '"', b == '\\', b == '<', b == '>', b == '&':
			return append(out, znode.Encode(name)...)
		}
	}
	out = append(out, '"')
	out = append(out, name...)
	return append(out, '"')
}

func (p groupPlace) append(out []byte) []byte {
	out = append(out, '{')
	if len(p.holders) > 0 {
		out = append(out, `"h":[`...)
		for i, h := range p.holders {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, '[')
			out = strconv.AppendInt(out, h.member, 10)
			out = append(out, ',')
			out = strconv.AppendInt(out, int64(h.token), 10)
			if h.revoking {
				out = append(out, ",1"...)
			}
			out = append(out, ']')
		}
		out = append(out, ']')
	}
	if p.differs {
		if len(p.holders) > 0 {
			out = append(out, ',')
		}
		out = append(out, `"p":[`...)
		for i, name := range p.plan {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(name), 10)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// UnmarshalJSON implements json.Unmarshaler. What is not as MarshalJSON writes it
// is read as JSON is.
func (ps *groupPlaces) UnmarshalJSON(data []byte) error {
	r := placeReader{text: string(data)}
	if r.places() {
		*ps = r.read
		return nil
	}
	return ps.unmarshal(data)
}

// unmarshal reads any JSON.
func (ps *groupPlaces) unmarshal(data []byte) error {
	var all map[string]struct {
		Holders [][]int64 `json:"h"`
		Plan    *[]int    `json:"p"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*ps = make(groupPlaces, 0, len(all))
	for name, in := range all {
		p := groupPlace{lock: name}
		for _, row := range in.Holders {
			h := placeHolder{member: -1} // no participant's
			if len(row) > 1 {
				h = placeHolder{member: row[0], token: lock.Token(row[1]), revoking: len(row) > 2 && row[2] != 0}
			}
			p.holders = append(p.holders, h)
		}
		if in.Plan != nil {
			p.plan, p.differs = *in.Plan, true
		}
		*ps = append(*ps, p)
	}
	slices.SortFunc(*ps, func(a, b groupPlace) int { return strings.Compare(a.lock, b.lock) })
	return nil
}

// A placeReader reads what MarshalJSON has written. All names are parts of one
// string: who keeps one for long clones it.
type placeReader struct {
	text string
	at   int
	read groupPlaces

	holders []placeHolder // of all locks, in pieces
	plans   []int
}

// places reports whether the text is as it is written here.
func (r *placeReader) places() bool {
	if !r.skip('{') {
		return false
	}
	// Most locks have one holder.
	n := strings.Count(r.text, `"h"`)
	r.read, r.holders = make(groupPlaces, 0, n), make([]placeHolder, 0, n)
	for !r.skip('}') {
		if len(r.read) > 0 && !r.skip(',') {
			return false
		}
		var p groupPlace
		var ok bool
		if p.lock, ok = r.name(); !ok || !r.skip(':') || !r.place(&p) {
			return false
		}
		if last := len(r.read) - 1; last >= 0 && r.read[last].lock >= p.lock {
			return false
		}
		r.read = append(r.read, p)
	}
	return r.at == len(r.text)
}

// skip goes past a byte, if it is the next one.
func (r *placeReader) skip(b byte) bool {
	if r.at < len(r.text) && r.text[r.at] == b {
		r.at++
		return true
	}
	return false
}

// skipAll goes past some bytes, if they are next.
func (r *placeReader) skipAll(s string) bool {
	if strings.HasPrefix(r.text[r.at:], s) {
		r.at += len(s)
		return true
	}
	return false
}

// name reads a name without escapes.
func (r *placeReader) name() (string, bool) {
	if !r.skip('"') {
		return "", false
	}
	end := strings.IndexByte(r.text[r.at:], '"')
	if end < 0 {
		return "", false
	}
	name := r.text[r.at : r.at+end]
	r.at += end + 1
	return name, strings.IndexByte(name, '\\') < 0 && utf8.ValidString(name)
}

func (r *placeReader) place(p *groupPlace) bool {
	if !r.skip('{') {
		return false
	}
	if r.skipAll(`"h":[`) {
		first := len(r.holders)
		for !r.skip(']') {
			h := placeHolder{}
			if len(r.holders) > first && !r.skip(',') || !r.holder(&h) {
				return false
			}
			r.holders = append(r.holders, h)
		}
		p.holders = r.holders[first:len(r.holders):len(r.holders)]
		if r.skip('}') {
			return true
		}
		if !r.skip(',') {
			return false
		}
	}
	if r.skipAll(`"p":[`) {
		first := len(r.plans)
		for !r.skip(']') {
			if len(r.plans) > first && !r.skip(',') {
				return false
			}
			i, ok := r.number()
			if !ok {
				return false
			}
			r.plans = append(r.plans, int(i))
		}
		p.plan, p.differs = r.plans[first:len(r.plans):len(r.plans)], true
	}
	return r.skip('}')
}

// holder reads [member,token] or [member,token,1].
func (r *placeReader) holder(h *placeHolder) (ok bool) {
	if !r.skip('[') {
		return false
	}
	if h.member, ok = r.number(); !ok || !r.skip(',') {
		return false
	}
	token, ok := r.number()
	h.token = lock.Token(token)
	h.revoking = r.skipAll(",1")
	return ok && r.skip(']')
}

// number reads one that is not negative and has few enough digits.
func (r *placeReader) number() (n int64, ok bool) {
	const most = 18
	start := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		n = 10*n + int64(r.text[r.at]-'0')
		if r.at++; r.at-start > most {
			return 0, false
		}
	}
	return n, r.at > start
}
