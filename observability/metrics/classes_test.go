package metrics

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Classes of victims and of preemptors may be any two of those known: there are no more
// pairs than classes all the same.
func TestPairsOfClassesAreBounded(t *testing.T) {
	const most = 30
	c := newClasses(most)
	pairs := map[[2]string]bool{}
	for round := range 2 {
		for i := range most {
			for j := range most {
				victim, preemptor := c.pair(fmt.Sprint(i), fmt.Sprint(j))
				pairs[[2]string{victim, preemptor}] = true
				if i == j {
					require.Equal(t, [2]string{fmt.Sprint(i), fmt.Sprint(j)}, [2]string{victim, preemptor}, "round %d", round)
				}
			}
		}
	}
	require.Len(t, pairs, most+most+1, "those of one class, as many others, and the rest")
}

func TestClassesAreBoundedWhenManyComeAtOnce(t *testing.T) {
	const most, comers = 5, 64
	for range 200 {
		c := newClasses(most)
		var begin, wg sync.WaitGroup
		begin.Add(1)
		for i := range comers {
			wg.Go(func() {
				begin.Wait()
				c.of(fmt.Sprint(i))
			})
		}
		begin.Done()
		wg.Wait()
		require.Len(t, c.known, most)
	}
}
