// Package znode says how nodes are named, and what stands in them: scopes as names of nodes, guids and sequence
// numbers, records in JSON with a format that older programs refuse, and times and durations as these have them.
//
// The idea: what others have written is data. Whatever stands there is read without harm, and what a newer program has
// written is left alone.
package znode
