// Package classic holds the proof of the classic recipes: what Curator, Kazoo, etcd and go-zookeeper promise of theirs
// is promised by ours, on either server.
//
// The one idea: a scenario of theirs is one test here, named after the behaviour. The comment above it names
// the scenario, for example Curator M4: docs/recipes.md lists them all. That processes in other languages
// contend with ours is the matter of integration/polyglot.
package classic
