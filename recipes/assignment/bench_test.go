package assignment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// 10,000 locks and 100 members, of which one goes; and one comes.
func BenchmarkOneOfAHundredMembersOfTenThousandLocks(b *testing.B) {
	locks, members := names("lock", 10_000), names("member", 101)
	for _, name := range assignment.Names() {
		before := run(b, named(b, name), locks, members[:100], nil, assignment.Hints{})
		for what, live := range map[string][]string{"leaves": members[1:100], "joins": members} {
			b.Run(name+"/"+what, func(b *testing.B) {
				var after assignment.Assignment
				for b.Loop() {
					after = run(b, named(b, name), locks, live, before, assignment.Hints{})
				}
				b.ReportMetric(float64(len(assignment.Moves(before, after))), "moves")
			})
		}
	}
}

func TestTenThousandLocksTakeWellUnderASecond(t *testing.T) {
	locks, members := names("lock", 10_000), names("member", 101)
	for _, name := range assignment.Names() {
		before := run(t, named(t, name), locks, members[:100], nil, assignment.Hints{})
		start := time.Now()
		after := run(t, named(t, name), locks, members[1:], before, assignment.Hints{})
		took := time.Since(start)
		t.Logf("%-10s %5d moves in %s", name, len(assignment.Moves(before, after)), took)
		require.Less(t, took, 5*time.Second, "generous: the machine may be busy")
	}
}
