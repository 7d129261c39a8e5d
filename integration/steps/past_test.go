package steps

import (
	"strings"
	"testing"
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
			strikes = append(strikes, &strike{fault: faultNamed(t, h.fault), frame: h.frame})
			name += h.frame.slug() + "-" + h.fault + "-"
		}
		t.Run(strings.TrimSuffix(name, "-"), func(t *testing.T) {
			play(t, sceneNamed(t, *c.scene, c.name), 0, strikes...)
			for _, k := range strikes {
				if !k.happened() {
					t.Errorf("there is no %s in this scene any more: find another one that shows it", k.frame)
				}
			}
		})
	}
}

func sceneNamed(t *testing.T, list []scene, name string) *scene {
	t.Helper()
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	t.Fatalf("there is no scene %q", name)
	return nil
}

func faultNamed(t *testing.T, name string) *fault {
	t.Helper()
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	t.Fatalf("there is no fault %q", name)
	return nil
}
