package recipes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// ZooKeeper hides the hashes of digest users from whoever may not change a list.
// A contender sees that somebody called ana may make nodes in the root, and not
// whether that is the one whom the configuration names, or a stranger who came
// first. So the operator who makes the root leaves a seal there:
//
//	<root>/seal   persistent: for each operator a tag, which only those can work out who know its hash
//
// Only those who may make nodes in the root could have put it there. A stranger
// who does not know the configuration cannot make one that is right.
type sealRecord struct {
	Format    int      `json:"format"`
	Operators []string `json:"operators"` // tags, in order
}

// sealTag is the tag of an operator in a root.
func sealTag(root string, id aclID) string {
	sum := sha256.Sum256([]byte("lockkeeper operator\n" + root + "\n" + id.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (a access) seal() []byte {
	rec := sealRecord{Format: recordFormat}
	for _, id := range a.operators {
		rec.Operators = append(rec.Operators, sealTag(a.root, id))
	}
	slices.Sort(rec.Operators)
	return encode(rec)
}

// sealed reports whether a user whose hash is hidden is an operator by the seal.
func (c *Client) sealed(ctx context.Context, s *session, id aclID) (bool, error) {
	data, _, err := s.get(ctx, c.root+"/"+roomSeal)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return false, nil
	case err != nil:
		return false, err
	}
	var rec sealRecord
	if err := decode(data, &rec, &rec.Format); err != nil {
		return false, nil //nolint:nilerr // not one that is right
	}
	return slices.ContainsFunc(c.operators, func(o aclID) bool {
		return o.mayBe(id) && slices.Contains(rec.Operators, sealTag(c.root, o))
	}), nil
}

// MakeRoot makes the root and the rooms below it, each with the list that the
// configuration gives it, as far as they are not there. Where Contenders or
// Readers are configured it takes an operator, others get an *IdentityError; an
// operator's client does it by itself before it makes anything else. The lists of
// what is there already stay as they are: see NodeACL.
func (c *Client) MakeRoot(ctx context.Context) error {
	if c.access.named() {
		if err := c.requireOperator(c.root + " not made"); err != nil {
			return err
		}
	}
	c.roomsMade.Store(false)
	return c.ensure(ctx, c.root)
}

func (a access) rooms() []string {
	all := []string{a.root}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if room == roomOverrides { // there is one as soon as there are overrides
			continue
		}
		if all = append(all, a.root+"/"+room); room == roomAudit {
			all = append(all, a.root+"/"+room+"/log")
		}
	}
	return all
}

// makeRooms makes what only operators may.
func (s *session) makeRooms(ctx context.Context) error {
	c := s.c
	if c.roomsMade.Load() {
		return nil
	}
	for _, room := range c.access.rooms() {
		var data []byte
		if room == c.root+"/"+roomSeal {
			data = c.access.seal()
		}
		_, err := s.create(ctx, room, data, 0)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	if err := s.renewSeal(ctx); err != nil {
		return err
	}
	c.roomsMade.Store(true)
	return nil
}

// renewSeal makes the seal that of this client's operators.
func (s *session) renewSeal(ctx context.Context) error {
	node, want := s.c.root+"/"+roomSeal, s.c.access.seal()
	for {
		has, stat, err := s.get(ctx, node)
		if err != nil || string(has) == string(want) {
			return err
		}
		if _, err = s.set(ctx, node, want, stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}
