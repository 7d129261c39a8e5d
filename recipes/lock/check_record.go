package lock

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// What a survey of the root asks of the nodes of locks.

// CheckLockRecord returns a *RecordError for data of a lock's node that cannot be read.
func CheckLockRecord(data []byte) error {
	_, err := decodeLock(data)
	return err
}

// CheckRequestRecord returns a *RecordError for data of a request's node that cannot be read.
func CheckRequestRecord(data []byte) error {
	_, err := decodeContender(data)
	return err
}

// CheckFrozenRecord returns a *RecordError for data of a frozen request's node that cannot be read.
func CheckFrozenRecord(data []byte) error {
	_, err := decodeFrozen(data, new(zkclient.Stat))
	return err
}

// ParseRequestName reads the name of a request's node: the ID that State shows, and the priority. It reports false for
// another name.
func ParseRequestName(name string) (id string, p priority.Level, ok bool) {
	c, ok := parseChild(name)
	return c.guid, c.level(), ok
}

// ScopeIn returns the scope of a node in a bucket, or why it is no lock.
func ScopeIn(root, bucket, name string) (scope, why string) {
	scope, ok := znode.UnescapeScope(name)
	if !ok {
		return "", notAScope
	}
	if right := lockPath(root, name); right != bucket+"/"+name {
		return "", inWrongBucket(right)
	}
	return scope, ""
}

// IsBucket reports whether a name is that of one of the 256 nodes below which the locks are.
func IsBucket(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}
