// Package bugs plants bugs into the product, to show that the robustness suite finds them.
//
// The one idea: the product's code has a marker at each place that a bug changes, a comment with the code
// that the bug has there. Behind code, it takes the place of that code; on a line of its own, it is added;
// where nothing follows the colon, the code before it goes:
//
//	Version: t.version, // planted-bug grab-without-version: Version: -1,
//
//	// planted-bug readers-hand-over-without-version: line.version = -1
//	send(next, line.version)
//
//	s.lose(s.overErr) // planted-bug grant-of-another-session:
//
// A marked line may be moved to another file or package. The clients are built from a copy of the marked
// files (go build -overlay): the sources stay as they are.
package bugs
