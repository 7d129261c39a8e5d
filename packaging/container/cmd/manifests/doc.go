// Command manifests writes what kustomize makes of a directory, one file an object.
// `make manifests-check` runs it.
package main
