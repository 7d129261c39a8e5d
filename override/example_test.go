package override_test

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

func ExampleSet_Apply() {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	until := at.Add(2 * time.Hour)
	all := []override.Override{
		{ID: "INC-4411", Kind: override.Freeze, Match: override.Match{Scope: "db/*", PriorityBelow: new(priority.Level(80))}, Until: until, By: "ana", Reason: "disk full"},
		{ID: "INC-4412", Kind: override.Boost, Match: override.Match{Job: "cleanup"}, Priority: new(priority.Level(90)), Until: until, By: "ben", Reason: "free the disk"},
	}
	set, _ := override.InForce(all, at)
	for _, job := range []string{"nightly", "cleanup"} {
		effect := set.Apply(override.Subject{Scope: "db/orders", Job: job}, priority.Terms{Priority: 20})
		fmt.Printf("%s: priority %d, frozen: %t\n", job, effect.Terms.Priority, effect.Frozen != nil)
	}
	fmt.Println(all[0].Summary(at))
	// Output:
	// nightly: priority 20, frozen: true
	// cleanup: priority 90, frozen: false
	// freeze db/* below 80 until 14:00 UTC by ana: disk full (INC-4411)
}
