// Package verdict judges a history of the robustness suite: were the promises
// of the lock kept?
//
// The one idea: what counts is what clients learned. A hold begins when its
// Acquire has returned (Granted) and ends when its holder learns that it is
// lost, or is about to release it (Ended): what happens at the servers between
// those is the product's business, and shows only if it lets two clients believe
// what cannot be.
//
//	found := verdict.Judge(events, verdict.Settings{})
//
// Porcupine checks a lock with fencing tokens for each scope; more checks look for
// what such a model cannot say. README.md has the exact model, what is not promised,
// all checks, and what they cannot see.
package verdict
