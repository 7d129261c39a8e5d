package steps

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	every = flag.Int("every", 151, "play every n-th case, and those that tell most; all of a frame that -run names")
	long  = flag.Bool("long", false, "two faults at a time, too")
	seed  = flag.Uint64("seed", 1, "of the choice of two faults")
	pairs = flag.Int("pairs", 200, "how many pairs of faults each scene is played with")
)

// step is -every, unless -run names frames.
func step() int {
	if strings.Count(flag.Lookup("test.run").Value.String(), "/") > 1 {
		return 1
	}
	return max(1, *every)
}

// telling are the cases that break a careless recipe first: a write that is done,
// and whose answer is lost.
func telling(f frame, fault *fault) bool {
	return f.writes() && (fault.name == "drop-reply" || fault.name == "cancel-drop-reply")
}

func TestSteps(t *testing.T) { matrix(t, scenes) }

func TestStepsOfClassicRecipes(t *testing.T) { matrix(t, classics) }

func TestStepsOfCompanions(t *testing.T) { matrix(t, companions) }

func TestStepsOfTickets(t *testing.T) { matrix(t, tickets) }

func TestStepsOfGuards(t *testing.T) { matrix(t, guarded) }

// everyScene is each scene of each recipe.
func everyScene() (all []*scene) {
	for _, list := range [][]scene{scenes, companions, classics, guarded, tickets} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

func slug(name string) string { return strings.NewReplacer(" ", "-", ",", "").Replace(name) }

// matrix plays each scene with each fault at each of its frames.
func matrix(t *testing.T, scenes []scene) {
	for i := range scenes {
		sc := &scenes[i]
		t.Run(slug(sc.name), func(t *testing.T) {
			t.Parallel()
			frames, took := play(t, sc, 0)
			if t.Failed() {
				return
			}
			counts := &tally{}
			for n, f := range frames {
				t.Run(fmt.Sprintf("%03d-%s", n+1, f.slug()), func(t *testing.T) {
					for j := range faults {
						fault := &faults[j]
						if !telling(f, fault) && (n*len(faults)+j+i)%step() != 0 {
							continue
						}
						t.Run(fault.name, func(t *testing.T) {
							k := &strike{fault: fault, frame: f}
							play(t, sc, took+fault.delay+sc.stay, k)
							counts.add(k)
						})
					}
				})
			}
			t.Logf("%d frames in %s: %s", len(frames), took, counts)
			// Two requests that a client sends at the same moment may change places.
			require.LessOrEqual(t, counts.missed*10, counts.cases+10, "the scene does not go the same way each time")
		})
	}
}

// A tally counts cases.
type tally struct {
	mu     sync.Mutex
	cases  int
	missed int // the frame did not come
	by     map[string]int
}

func (c *tally) add(k *strike) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]int)
	}
	c.cases++
	if k.happened() {
		c.by[k.fault.name]++
	} else {
		c.missed++
		c.by["not reached: "+k.frame.String()]++
	}
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := []string{fmt.Sprintf("%d cases", c.cases)}
	for _, fault := range slices.Sorted(maps.Keys(c.by)) {
		parts = append(parts, fmt.Sprintf("%s %d", fault, c.by[fault]))
	}
	return strings.Join(parts, ", ")
}
