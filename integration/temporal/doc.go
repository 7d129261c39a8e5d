// Package temporal runs jobs that start workflows against a real Temporal
// server, which is a part of the test binary. It is a module of its own: the
// server must not become a dependency of the framework.
package temporal
