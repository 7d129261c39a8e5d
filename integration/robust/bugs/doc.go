// Package bugs holds bugs to be planted into the product, to show that the
// robustness suite finds them.
//
// The one idea: a bug is a small replacement of text in a package of the product.
// It is applied to a copy, and the go command builds the clients with that copy
// in place of its files (go build -overlay): the sources stay as they are, and a
// replacement that no longer applies fails a test.
package bugs
