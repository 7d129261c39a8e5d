package assignment

// Sticky moves nothing that has a holder. When a member joins, it gets the
// locks without a holder and those pinned to it. When one leaves, each of its
// locks goes to the member that has fewest then, in another zone than the
// lock's other holders if there is one. It does not read weights.
//
// It is for locks that are expensive to move; after joins the spread is what
// history made it.
type Sticky struct{}

// Assign implements Strategy.
func (Sticky) Assign(locks, live []string, previous Assignment, hints Hints) (Assignment, error) {
	if len(live) == 0 {
		return Assignment{}, nil
	}
	p := place(locks, live, previous, hints, func(string) bool { return false })
	p.fill(func(m int) int { return -p.load[m] }, 0)
	return p.assignment(), nil
}
