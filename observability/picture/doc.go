// Package picture draws what happens to locks: the timeline of one lock (who
// waited, who held it, who preempted whom), the graph of who waits for whom,
// and the time lost by waiting as a heat map; as SVG, the timeline also as text
// for terminals.
//
// The idea: pure functions from the model of package live to bytes. There is no
// I/O and no clock in here, so the same model gives the same picture, byte for
// byte, in the console, in a terminal and in a test.
//
//	timeline := board.Timeline("cluster/orders", from, to)
//	err := picture.TimelineSVG(file, timeline, picture.Options{Standalone: true})
//
// A picture can be read by all: kinds differ by pattern, outline and form as
// well as by colour, what it shows is also said in a description for screen
// readers, and a standalone one is light or dark as its reader's system is. It has
// no scripts and no style attributes, so that a strict Content-Security-Policy
// lets it through; where it is embedded in a page, that has [Stylesheet]. Names and
// messages are whatever strangers have written into ZooKeeper: all of them are
// escaped. And it is bounded: however much there is, what is left out is said in
// the picture, not drawn.
package picture
