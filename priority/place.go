package priority

// A Place is where a request stands in the queue for a lock.
type Place struct {
	Level    Level
	Sequence int32 // counts the requests for this lock; may wrap
}

// Before reports whether p is served before q: the higher level first and,
// inside one level, the earlier sequence.
//
// Sequences wrap from the largest int32 to the smallest, so the earlier one is
// told by the sign of their difference. That is an order as long as the
// requests that wait at one time were numbered within 2³¹ of each other.
func (p Place) Before(q Place) bool {
	if p.Level != q.Level {
		return p.Level > q.Level
	}
	return p.Sequence-q.Sequence < 0
}
