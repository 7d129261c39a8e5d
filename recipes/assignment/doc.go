// Package assignment decides who holds which lock: it spreads the locks of a
// group over the members that are live.
//
// The one idea: a strategy is handed the facts of a moment and what was
// decided before, and returns who shall hold what. There is no clock, no
// client and no memory in between, so that every strategy is tested over
// thousands of histories, and a plan can be printed before anything moves.
//
//	locks := []string{"lock_0", "lock_1", "lock_2", "lock_3"}
//	before, err := assignment.Run(assignment.Balanced{}, locks, []string{"a", "b"}, nil, assignment.Hints{})
//	if err != nil {
//		return err
//	}
//	after, err := assignment.Run(assignment.Balanced{}, locks, []string{"a"}, before, assignment.Hints{})
//	if err != nil {
//		return err
//	}
//	for _, move := range assignment.Moves(before, after) {
//		fmt.Println(move)
//	}
//	// lock_1: b -> a
//	// lock_3: b -> a
//
// Run is what calls a strategy: it hands out copies, turns a panic into an
// error and checks the answer, so that a strategy may come from any source.
package assignment
