package lock

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A holdView is the lock as one that wants to become a member of a hold sees it.
type holdView struct {
	g     lockRecord
	stat  *zkclient.Stat // of the lock node, read before all else
	there []child
}

// alive are the holders that are there.
func (v *holdView) alive() []child {
	return slices.DeleteFunc(slices.Clone(v.there), func(c child) bool { return !v.g.holds(c) })
}

// holders are those of G with one more, in the place of another one if there is
// one. The dead of an exclusive hold stay named, as long as it goes on: so a
// reference to them shows as valid. All in G are of one hold then, for a grant
// to any other request drops the dead.
func (v *holdView) holders(mode priority.Mode, place, guid string) []string {
	var all []string
	dead := 0
	for i, id := range slices.Backward(v.g.Holders) {
		switch {
		case id == place:
			id = guid
		case isPresent(v.there, id):
		case mode == priority.Shared:
			continue
		default:
			if dead++; dead > maxDead && i > 0 {
				continue
			}
		}
		all = append(all, id)
	}
	slices.Reverse(all)
	if !slices.Contains(all, guid) {
		all = append(all, guid)
	}
	return all
}

// maxDead is how many dead members of a hold G names, beside the first.
const maxDead = 16

func (v *holdView) find(guid string) (child, bool) {
	i := slices.IndexFunc(v.there, func(c child) bool { return c.guid == guid })
	if i < 0 {
		return child{}, false
	}
	return v.there[i], true
}
