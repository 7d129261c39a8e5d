package steps

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Cases that failed once, whatever -every says.
var past = []struct {
	scene *[]scene
	name  string
	hits  []hit
}{
	// The library registered the watch on the lock node again after the reconnect,
	// for a request that had left meanwhile: it stayed until the lock was used again.
	{&scenes, "downgrade", []hit{{frame{"C", "getChildren users", 6}, "cancel-drop-request"}}},
	{&scenes, "downgrade", []hit{{frame{"C", "getChildren users", 6}, "cancel-drop-reply"}}},

	// The connection broke as one that had left took its watch back, and it did not
	// try again.
	{&scenes, "shared, preempted", []hit{
		{frame{"C", "getData users", 8}, "cancel-after-long"}, {frame{"C", "getData users", 9}, "restart-after"},
	}},

	// A client that was closed while the server was silent reported a lock as
	// released whose node was still there.
	{&scenes, "alone", []hit{
		{frame{"A", "getChildren users", 3}, "close-before"}, {frame{"A", "delete A", 1}, "silence-before"},
	}},
	{&scenes, "shared", []hit{
		{frame{"C", "getChildren users", 8}, "close-after"}, {frame{"C", "multi setData D setData E delete C setData users", 1}, "silence-before"},
	}},
}

type hit struct {
	frame frame
	fault string
}

func TestCasesThatFailedOnce(t *testing.T) {
	for _, c := range past {
		var strikes []*strike
		name := slug(c.name) + "/"
		for _, h := range c.hits {
			i := slices.IndexFunc(faults, func(f fault) bool { return f.name == h.fault })
			require.GreaterOrEqual(t, i, 0, "there is no fault %q", h.fault)
			strikes = append(strikes, &strike{fault: &faults[i], frame: h.frame})
			name += h.frame.slug() + "-" + h.fault + "-"
		}
		t.Run(strings.TrimSuffix(name, "-"), func(t *testing.T) {
			i := slices.IndexFunc(*c.scene, func(s scene) bool { return s.name == c.name })
			require.GreaterOrEqual(t, i, 0, "there is no scene %q", c.name)
			play(t, &(*c.scene)[i], 0, strikes...)
			for _, k := range strikes {
				if !k.happened() {
					t.Errorf("there is no %s in this scene any more: find another one that shows it", k.frame)
				}
			}
		})
	}
}
