// Package followers tests the promise that a holder hears of its loss before
// another client is granted, on an ensemble: the holder is the client of a
// follower, of an observer or of a deposed leader, and the leader, which alone
// expires sessions, hears of it with the follower's replies to its pings.
//
// A scenario puts a holder and a waiter of the same priority on members of a
// zktest.Ensemble, in a bubble of testing/synctest, lets something go wrong at
// many instants within two ticks, and compares two instants: when the holder
// learns of its loss, and when the waiter is granted.
//
// The explorer does the same with schedules of random faults. A schedule comes
// from its seed alone; LOCKKEEPER_FOLLOWERS_SEED plays one of them and
// LOCKKEEPER_FOLLOWERS_SCHEDULES says how many are played. What the client
// library draws at random (pauses between reconnects) is not part of the seed:
// a schedule that fails may take a few tries to fail again.
package followers
