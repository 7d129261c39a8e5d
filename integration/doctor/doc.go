// Package doctor shows the doctor patients: servers that are down, alone, silent
// or in disagreement, nodes of other users or without an owner, files that are
// wrong. Each disease is caught on purpose, once, and has to be found by its
// name; a healthy patient must not be ill.
package doctor
