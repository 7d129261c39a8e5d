package assignment_test

import (
	"fmt"
	"testing"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// 10,000 locks and 100 members, of which one goes and one comes.
func BenchmarkTenThousandLocksOfAHundredMembers(b *testing.B) {
	locks, members := names("lock", 10_000), names("member", 101)
	zones := map[string]string{}
	for i, member := range members {
		zones[member] = fmt.Sprint(i % 5)
	}
	for _, name := range assignment.Names() {
		for title, hints := range map[string]assignment.Hints{
			"1 holder":           {Holders: 1},
			"3 holders":          {Holders: 3},
			"3 holders, 5 zones": {Holders: 3, Zones: zones},
		} {
			b.Run(name+"/"+title, func(b *testing.B) {
				before := run(b, named(b, name), locks, members[:100], nil, hints)
				for b.Loop() {
					run(b, named(b, name), locks, members[1:], before, hints)
				}
			})
		}
	}
}
