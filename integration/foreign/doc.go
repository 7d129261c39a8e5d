// Package foreign puts nodes where only Lockkeeper should write: names that do
// not parse, data that say nothing, records of newer programs, nodes that may not
// be read. "Foreign nodes" in docs/protocol.md says what becomes of each.
//
// The one idea: whatever is there, a client neither crashes, nor waits for ever,
// nor fails to give a lock back. It passes over what is none of ours and says
// so; where it cannot, its error names the node. The tests run on a real server
// and on the embedded one. A vandal with a seed, in virtual time, does all of it
// while ten clients work.
package foreign
