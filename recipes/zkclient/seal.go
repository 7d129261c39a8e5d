package zkclient

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// ZooKeeper hides the hashes of digest users from clients that may not change a
// list. A contender sees that a user called ana may make nodes in the root, and
// not whether that is the one that the configuration names, or a stranger who
// came first. So the operator who makes the root leaves a seal there:
//
//	<root>/seal   persistent: for each operator a tag, which only those can work out who know its hash
//
// Only those who may make nodes in the root could have put it there. A stranger
// who does not know the configuration cannot make one that is right.
type SealRecord struct {
	Format    int      `json:"format"`
	Operators []string `json:"operators"` // tags, in order
}

// sealTag is the tag of an operator in a root.
func sealTag(root string, id aclID) string {
	sum := sha256.Sum256([]byte("lockkeeper operator\n" + root + "\n" + id.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (a access) seal() []byte {
	rec := SealRecord{Format: znode.RecordFormat}
	for _, id := range a.operators {
		rec.Operators = append(rec.Operators, sealTag(a.root, id))
	}
	slices.Sort(rec.Operators)
	return znode.Encode(rec)
}

// sealed reports whether a user whose hash is hidden is an operator by the seal.
func (c *Client) sealed(ctx context.Context, s *Session, id aclID) (bool, error) {
	data, _, err := s.Get(ctx, c.root+"/"+roomSeal)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return false, nil
	case err != nil:
		return false, err
	}
	var rec SealRecord
	if err := znode.Decode(data, &rec, &rec.Format); err != nil {
		return false, nil //nolint:nilerr // not one that is right
	}
	return slices.ContainsFunc(c.who().operators, func(o aclID) bool {
		return o.mayBe(id) && slices.Contains(rec.Operators, sealTag(c.root, o))
	}), nil
}
