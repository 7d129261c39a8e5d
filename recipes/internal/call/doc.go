// Package call is what the calls of all locks have in common: the wait for a
// grant, and a listener for what becomes of it.
package call
