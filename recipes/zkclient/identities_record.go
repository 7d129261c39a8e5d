package zkclient

import (
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// An operator leaves the identities in ZooKeeper (lockkeeper init), so that
// other clients need their own credentials and nothing else. Access control
// lists cannot tell: ZooKeeper hides the hashes in them from clients that may
// not change them.
//
//	<root>/identities   persistent: the three lists, as JSON; operators may write it, contenders and readers read it
type identitiesRecord struct {
	Format     int      `json:"format"`
	Operators  []string `json:"operators"`
	Contenders []string `json:"contenders,omitempty"`
	Readers    []string `json:"readers,omitempty"`
}

// identities is what the node of a root has.
func (a access) identities() []byte {
	texts := func(ids []aclID) (list []string) {
		for _, id := range ids {
			list = append(list, id.String())
		}
		slices.Sort(list)
		return list
	}
	return znode.Encode(identitiesRecord{
		Format: znode.RecordFormat, Operators: texts(a.operators), Contenders: texts(a.contenders),
		Readers: texts(a.readers),
	})
}

// CheckIdentitiesRecord says what is wrong with the lists that stand in a node: a *RecordError without the node.
func CheckIdentitiesRecord(data []byte) error {
	_, err := decodeIdentities(data)
	return err
}

func decodeIdentities(data []byte) (a access, err error) {
	var rec identitiesRecord
	if err := znode.Decode(data, &rec, &rec.Format); err != nil {
		return access{}, err
	}
	for _, list := range []struct {
		texts []string
		parse func(string) (aclID, error)
		into  *[]aclID
	}{
		{rec.Operators, parseOperator, &a.operators},
		{rec.Contenders, parseContender, &a.contenders},
		{rec.Readers, parseOperator, &a.readers},
	} {
		for _, text := range list.texts {
			id, err := list.parse(text)
			if err != nil {
				return access{}, &znode.RecordError{Err: err}
			}
			*list.into = append(*list.into, id)
		}
	}
	if len(a.operators) == 0 {
		return access{}, &znode.RecordError{Err: errors.New("it names no operators")}
	}
	return a, nil
}
