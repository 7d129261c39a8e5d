// Package orders is the data set that the jobs of the nightly example share: a
// directory of plain files, as a small shop might have them.
//
//	data/00.txt … 11.txt   segments: one line for each version of an order
//	data/manifest.json     generation, and the checksum of every segment
//	data/journal.txt       one line for each change that was ever committed
//	undo/                  during a write:    the files as they were before
//	backups/               tar files, each with its checksum
//	fence                  the highest fencing token that was ever seen
//
// The one idea: writers change the segments in place, one after the other, so
// that two of them at once, or a backup beside a writer, spoil something. The
// data set does not keep them apart: that is what locks are for. It only makes
// sure that [Verify] notices. A sum that is off, an update that was lost, a
// generation that was written twice, a backup of two generations at once: all
// of them are found, because the journal says what should be there.
//
// What it does do is what everything should do that is written to under a lock:
// it takes the fencing token of each writer and refuses a writer whose token is
// older than one that it has seen.
package orders
