package assignment

import (
	"cmp"
	"math"
	"slices"
)

// bounds are what a member must and can hold at all.
type bounds struct{ least, most int }

// whole is how close to a whole number a share is taken for one.
const whole = 1e-9

// shares divides total by weights within bounds: a member that would get less
// than the least or more than the most gets that, and the others divide the
// rest. The sum of shares is total whenever the bounds allow it.
func shares(total int, weights []float64, limits []bounds) []float64 {
	share := make([]float64, len(weights))
	fixed := make([]bool, len(weights))
	for {
		rest, sum := float64(total), 0.0
		for i := range share {
			if fixed[i] {
				rest -= share[i]
			} else {
				sum += weights[i]
			}
		}
		over, under := 0.0, 0.0
		for i := range share {
			if fixed[i] {
				continue
			}
			share[i] = 0
			if sum > 0 && rest > 0 {
				share[i] = rest * (weights[i] / sum)
			}
			over += max(0, share[i]-float64(limits[i].most))
			under += max(0, float64(limits[i].least)-share[i])
		}
		if over == 0 && under == 0 {
			return share
		}
		// Only the side that has more to give or to take is final.
		for i := range share {
			switch {
			case fixed[i]:
			case over >= under && share[i] > float64(limits[i].most):
				share[i], fixed[i] = float64(limits[i].most), true
			case under >= over && share[i] < float64(limits[i].least):
				share[i], fixed[i] = float64(limits[i].least), true
			}
		}
	}
}

// round makes whole numbers of shares by the largest remainder. Of equal
// remainders the one goes first that already has most above its share.
func round(total int, share []float64, load []int) []int {
	quota := make([]int, len(share))
	order := make([]int, len(share))
	for i, s := range share {
		quota[i] = int(math.Floor(s + whole))
		total -= quota[i]
		order[i] = i
	}
	rest := func(i int) float64 {
		r := share[i] - float64(quota[i])
		return math.Round(r/whole) * whole
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rest(b), rest(a)), cmp.Compare(load[b]-quota[b], load[a]-quota[a]))
	})
	for _, i := range order {
		if total <= 0 || rest(i) <= 0 {
			break
		}
		quota[i]++
		total--
	}
	return quota
}
