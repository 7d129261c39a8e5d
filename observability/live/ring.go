package live

// A ring keeps the newest entries.
type ring struct {
	most    int
	entries []Entry // by number; the oldest at start
	start   int
	last    uint64
}

func (r *ring) add(e Entry) {
	r.last++
	e.N = r.last
	e.At = e.At.UTC()
	if len(r.entries) < r.most {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.start] = e
	r.start = (r.start + 1) % len(r.entries)
}

// after returns the entries behind that number, the oldest first.
func (r *ring) after(n uint64, most int) []Entry {
	kept := uint64(len(r.entries))
	if n >= r.last {
		return []Entry{}
	}
	first := max(r.last-kept, n) + 1
	count := int(r.last - first + 1)
	if most > 0 {
		count = min(count, most)
	}
	out := make([]Entry, count)
	for i := range out {
		at := int(first-(r.last-kept+1)) + i
		out[i] = r.entries[(r.start+at)%len(r.entries)]
	}
	return out
}
