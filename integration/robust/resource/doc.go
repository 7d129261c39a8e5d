// Package resource is a file that several processes use, and that protects
// itself by fencing tokens: it accepts a write only if no holder with a greater
// token has used it before.
//
// A writer stands for an exclusive holder of a lock, a reader for a shared one.
// A reader's token counts as well: it fences off writers who have lost the lock
// to readers. It is never in the way of a writer who holds the lock, for an
// exclusive grant that comes after a reader's has a greater token. Readers
// themselves are never refused: they hold together, in any order.
package resource
