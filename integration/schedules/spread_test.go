package schedules

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// owners tells which of the daemons have had runs of a job since an instant.
func (w *world) owners(job string, since time.Duration) map[string]int {
	owners := make(map[string]int)
	b := w.book(job)
	for _, end := range b.ends {
		if !end.Instant.Before(w.at(since)) {
			owners[end.Owner]++
		}
	}
	return owners
}

func spreadJobs(w *world, n int) (list []jobs.Job) {
	for i := range n {
		list = append(list, overlapping(w.job(fmt.Sprint("job", i), "@every 10s", 13*time.Second), jobs.OverlapBufferOne, 0))
	}
	return list
}

func TestTicksThatWaitGoOnWithTheNextOwnerOfTheirJob(t *testing.T) {
	for _, dies := range []bool{true, false} {
		variant(t, fmt.Sprint("dies ", dies), func(t *testing.T, w *world) {
			// given three daemons over which jobs are spread, whose ticks wait all the time
			list := spreadJobs(w, 6)
			daemons := []*daemon{w.daemon("one", list, spread), w.daemon("two", list, spread, skewed(200*time.Millisecond)), w.daemon("three", list, spread)}
			w.Until(65 * time.Second)
			before := make(map[string]int)
			for _, j := range list {
				for owner := range w.owners(j.Name, 30*time.Second) {
					before[owner]++
				}
			}
			require.Len(t, before, 3, "each owns some of the jobs: %v", before)

			// when one of them goes, or dies
			if dies {
				daemons[0].kill()
			} else {
				daemons[0].drain()
			}
			w.Until(3 * time.Minute)
			drainAll(daemons[1:]...)

			// then the others own its jobs, and each tick has one outcome
			for _, j := range list {
				require.NotContains(t, w.owners(j.Name, 100*time.Second), "one")
				got := w.outcomes(j.Name)
				require.GreaterOrEqual(t, count(got, "ran"), 11, "%s: %v", j.Name, got)
				require.LessOrEqual(t, count(got, "interrupted"), 1)
				require.Zero(t, count(got, "missed"))
			}
		})
	}
}

func TestJobsAreSpreadAnewWhenTheirSetChanges(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given two daemons over which jobs are spread
		list := spreadJobs(w, 8)
		for _, j := range list {
			w.chronicle.follow(j)
		}
		one, two := w.daemon("one", list[:4], spread), w.daemon("two", list[:4], spread, skewed(-200*time.Millisecond))
		w.Until(45 * time.Second)

		// when the set of jobs changes again and again, in one of them half a minute later than in the other one
		for i, set := range [][]jobs.Job{list, list[2:], list[1:7], list[:4], list} {
			_, err := one.Reconcile(set)
			require.NoError(t, err)
			w.Pass(time.Duration(10*i) * time.Second)
			_, err = two.Reconcile(set)
			require.NoError(t, err)
			w.Pass(35 * time.Second)
		}
		settled := w.Now()
		w.Pass(time.Minute)

		// then in the end each job has one owner, each daemon owns some, and each tick has one outcome
		total := make(map[string]int)
		for _, j := range list {
			owners := w.owners(j.Name, settled+20*time.Second)
			require.Len(t, owners, 1, "%s: %v", j.Name, owners)
			for owner := range owners {
				total[owner]++
			}
		}
		require.Equal(t, map[string]int{"one": 4, "two": 4}, total)
		drainAll(one, two)
		for _, j := range list[2:4] { // which were there all the time
			got := w.outcomes(j.Name)
			require.Zero(t, count(got, "missed")+count(got, "undecided"), "%s: %v", j.Name, got)
		}
	})
}
