package assignment

// Weighted gives each member its share of the locks by weight, rounded by the
// largest remainder, and moves as few locks as possible. A member never holds
// a lock twice: what it could not take goes to the others by their weights.
//
// Pins and zones go before, as with Balanced. A member of weight 0 takes
// nothing but what is pinned to it, which empties a member that is to go.
type Weighted struct{}

// Assign implements Strategy.
func (Weighted) Assign(locks, live []string, previous Assignment, hints Hints) (Assignment, error) {
	return spread(locks, live, previous, hints), nil
}
