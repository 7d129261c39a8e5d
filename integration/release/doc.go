// Package release tests what users download: that the program is the same bytes wherever it is built, and that the
// files which say how a release is made agree. With the build tag release it looks at two builds of a release; `make
// release-check` makes them.
package release
