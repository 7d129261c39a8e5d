// Package guardtest is what the tests of adapters share: a server in virtual time, guards on it, and what several
// goroutines write. Those tests may import the public API alone, so they do without the harness in integration.
package guardtest
