package ticks

import (
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// CheckRecord says what is wrong with what stands in a job's node: a *zkclient.RecordError without the node.
func CheckRecord(data []byte) error {
	_, err := decodeTick(data, new(zkclient.Stat))
	return err
}

// CheckRequest says what is wrong with what stands in the node of a run that was asked for: a
// *zkclient.RecordError without the node.
func CheckRequest(data []byte) error {
	var n requestNote
	return znode.Decode(data, &n, &n.Format)
}
