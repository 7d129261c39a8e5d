package priority_test

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// An important request meets an unimportant holder.
func Example() {
	verdict := priority.Judge(priority.Facts{
		Request: priority.Request{Level: 5, Forceful: true},
		First:   true, // no other request is waiting before it
		Holders: []priority.Holder{{
			Level:          1,
			CleanupTimeout: 10 * time.Second,
			Remaining:      priority.Remaining{LeaseLeft: time.Minute},
		}},
	})
	fmt.Println(verdict.Action, verdict.Asks, "then judge again in", verdict.After)
	// Output: preempt [{0 outranked 10s}] then judge again in 10s
}

// A polite request follows one holder from moment to moment: it does not
// outrank it, so it waits for the lease, and then for the cleanup.
func ExampleJudge() {
	request := priority.Request{Level: 1}
	holder := priority.Holder{Level: 1, CleanupTimeout: 10 * time.Second, Remaining: priority.Remaining{LeaseLeft: time.Minute}}
	look := func() priority.Verdict {
		return priority.Judge(priority.Facts{Request: request, First: true, Holders: []priority.Holder{holder}})
	}

	v := look()
	fmt.Println(v.Action, "for", v.After)

	holder.LeaseLeft = 0 // a minute later
	v = look()
	fmt.Println(v.Action, v.Asks, "then wait for", v.After)

	holder.Asked = []priority.Asked{{Reason: priority.LeaseExpired, Ago: 10 * time.Second}}
	fmt.Println(look().Action)

	// Output:
	// wait for 1m0s
	// preempt [{0 lease 10s}] then wait for 10s
	// take over
}

// A job may ask for every level but the highest.
func ExampleLevel_CheckJob() {
	fmt.Println(priority.Level(100).CheckJob())
	fmt.Println((priority.Emergency - 1).CheckJob())
	fmt.Println(priority.Emergency.CheckJob())
	fmt.Println(priority.Level(-1).CheckJob())
	// Output:
	// <nil>
	// <nil>
	// priority 2147483647 is the emergency level, reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency
	// priority -1 is below the lowest; write a number from 0 (default, lowest) to 2147483646
}
