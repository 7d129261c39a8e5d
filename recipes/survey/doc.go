// Package survey looks at all that lies below the root: how much there is, what does not belong there, what
// cannot be read, and who may do what with it. Doctor judges it.
package survey
