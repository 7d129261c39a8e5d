// Package override says what an operator's emergency override is, whom it
// concerns, and what is left of a request when several of them meet.
//
// The one idea: overrides are facts of a moment. Set.Apply is handed what a
// request asks for and returns what it gets; there is no clock, no file and no
// client in between, so the order in which overrides win over each other is a
// table, and every process comes to the same result.
//
//	now, _ := override.InForce(all, time.Now())
//	effect := now.Apply(
//		override.Subject{Scope: "cluster/orders", Job: "nightly"},
//		priority.Terms{Priority: 20},
//	)
//	// effect.Terms.Priority, effect.Frozen, effect.Bypass
package override
