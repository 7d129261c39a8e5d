package steps

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestTwoFaults lets two things go wrong in each scene, chosen by -seed. It takes
// its time, so it runs by hand: see the package's documentation.
func TestTwoFaults(t *testing.T) {
	n := 2
	if *long {
		n = *pairs
	}
	for i, sc := range everyScene() {
		t.Run(slug(sc.name), func(t *testing.T) {
			t.Parallel()
			frames, took := play(t, sc, 0)
			if t.Failed() {
				return
			}
			random := rand.New(rand.NewPCG(*seed, uint64(i)))
			both := 0
			for range n {
				var k [2]*strike
				at := random.IntN(len(frames) - 1)
				second := at + 1 + random.IntN(min(len(frames)-at-1, 12)) // near enough to meet the first
				for j, f := range []int{at, second} {
					k[j] = &strike{fault: &faults[random.IntN(len(faults))], frame: frames[f]}
				}
				name := fmt.Sprintf("%03d-%s-%s-then-%03d-%s-%s", at+1, k[0].frame.slug(), k[0].fault.name, second+1, k[1].frame.slug(), k[1].fault.name)
				t.Run(name, func(t *testing.T) {
					play(t, sc, took+k[0].fault.delay+k[1].fault.delay+2*sc.stay, k[0], k[1])
				})
				if k[1].happened() {
					both++
				}
			}
			t.Logf("%d pairs, in %d both happened", n, both)
		})
	}
}
