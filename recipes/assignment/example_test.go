package assignment_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

func Example() {
	locks := []string{"lock_0", "lock_1", "lock_2", "lock_3"}
	before, err := assignment.Run(assignment.Balanced{}, locks, []string{"a", "b"}, nil, assignment.Hints{})
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := assignment.Run(assignment.Balanced{}, locks, []string{"a"}, before, assignment.Hints{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, move := range assignment.Moves(before, after) {
		fmt.Println(move)
	}
	// Output:
	// lock_1: b -> a
	// lock_3: b -> a
}

func ExampleStrategyFunc() {
	// A strategy of one's own: the first member holds everything. What it
	// answers is checked by Run as any other's.
	first := assignment.StrategyFunc(func(locks, live []string, _ assignment.Assignment, _ assignment.Hints) (assignment.Assignment, error) {
		next := assignment.Assignment{}
		for _, lock := range locks {
			next[lock] = live[:1]
		}
		return next, nil
	})
	next, err := assignment.Run(first, []string{"lock_0", "lock_1"}, []string{"b", "a"}, nil, assignment.Hints{})
	fmt.Println(next, err)
	// Output: map[lock_0:[a] lock_1:[a]] <nil>
}
