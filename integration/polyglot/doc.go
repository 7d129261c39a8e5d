// Package polyglot holds the proof that processes in different languages exclude each other through the
// classic recipes: Java with Curator, Python with Kazoo, and Go, on one path.
//
// The one idea: a referee in the test gives out the turns. Who has acquired tells it so before anything else,
// and again before it releases: it is never told of two that may not be inside together. The programs in java
// and python know nothing but how to take turns.
package polyglot
