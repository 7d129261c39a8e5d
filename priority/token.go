package priority

import "strconv"

// Token is a fencing token. It grows with every grant of a scope: give it to
// whatever the work writes to, and let that refuse a smaller one. It is the
// zxid of the ZooKeeper transaction that granted the lock.
//
// Shared holders have different tokens at one time: compare those of exclusive
// holds alone, or let a resource that readers only read ignore theirs.
type Token int64

// String returns the token in decimal, as scripts can compare it.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }
