package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// checkMatrix compares the lists of the nodes with those that the configuration
// gives them, where it names who may do what. It names a few nodes of each room
// that has others, and how ZooKeeper's shell sets them right.
func checkMatrix(f *findings, x *facts, o Options) {
	refused := map[string][]string{} // by what is to be set
	for _, node := range x.survey.Refused {
		do := setACLs(o, node)
		if uniform(x.survey.Root, node) {
			do = setACLs(o, roomOf(x.survey.Root, node))
		}
		refused[do] = append(refused[do], node)
	}
	for _, do := range slices.SortedFunc(maps.Keys(refused), func(a, b string) int {
		return strings.Compare(refused[a][0], refused[b][0])
	}) {
		f.problem(refused[do][0], fmt.Sprintf("%s cannot be read with %s: %s",
			words.Count(len(refused[do]), "node"), credentials(o), words.Few(refused[do], few)), do)
	}
	differ := map[string][]string{} // by what is to be set
	var order []string
	for _, node := range x.survey.ACLs {
		if isPassing(x.survey.Root, node.Path) || sameList(node.ACL, o.Client.NodeACL(node.Path)) {
			continue
		}
		do := setACLs(o, node.Path)
		if room := roomOf(x.survey.Root, node.Path); uniform(x.survey.Root, node.Path) {
			do = setACLs(o, room)
		}
		if differ[do] == nil {
			order = append(order, do)
		}
		differ[do] = append(differ[do], node.Path)
	}
	const few = 10
	for i, do := range order {
		nodes := differ[do]
		if i == few {
			f.problem("", fmt.Sprintf("and the lists of nodes in %d more places", len(order)-few),
				"set these right, and look again")
			break
		}
		f.problem(nodes[0], fmt.Sprintf("the ACLs of %s are not those of the configuration (%s): %s",
			words.Count(len(nodes), "node"), wrong(x, o, nodes[0]), words.Few(nodes, few)), do)
	}
	var missing []string
	if x.survey.Complete {
		for _, room := range o.Client.Rooms() {
			there := slices.ContainsFunc(x.survey.ACLs, func(n survey.NodeACL) bool { return n.Path == room }) ||
				slices.Contains(x.survey.Refused, room)
			if !there {
				missing = append(missing, room)
			}
		}
	}
	if len(missing) > 0 {
		f.problem(missing[0], fmt.Sprintf("%s of this version's are not there, and only operators may make them: %s",
			words.Count(len(missing), "node"), words.Few(missing, few)),
			"lockkeeper init, with the credentials of an operator")
	}
	if len(order) == 0 && len(missing) == 0 && len(x.survey.Refused) == 0 {
		f.ok(x.survey.Root,
			fmt.Sprintf("%s, each with the ACL that the configuration gives it", words.Count(len(x.survey.ACLs), "node")))
	}
}

const setACL = "setAcl "

// IsCommand reports whether what to do about a finding is a command of ZooKeeper's
// shell (zkCli.sh), to be pasted as a whole.
func IsCommand(do string) bool { return strings.HasPrefix(do, setACL) }

// setACLs is how ZooKeeper's shell gives a node its list, with all below it
// where they have the same.
func setACLs(o Options, node string) string {
	var entries []string
	hard := false
	for _, a := range o.Client.NodeACL(node) {
		entries = append(entries, a.String())
		hard = hard || a.Scheme == "x509" && strings.Contains(a.ID, ",")
	}
	command := setACL
	if hard {
		command = "set_acls of Kazoo, for zkCli.sh cannot name a subject with a comma in it: "
	}
	if !hard && uniform(o.Client.Chroot+root(o), node) {
		command += "-R "
	}
	return command + node + " " + strings.Join(entries, ",")
}

func root(o Options) string {
	if o.Client.Root == "" {
		return "/lockkeeper"
	}
	return o.Client.Root
}

// uniform reports whether all that is below a node has its list.
func uniform(root, node string) bool {
	room := roomOf(root, node)
	return room != root && !restricted(root, node) && room != root+"/seal"
}

// roomOf is the child of the root that a node is in, or the root itself.
func roomOf(root, node string) string {
	rest, below := strings.CutPrefix(node, root+"/")
	if !below {
		return root
	}
	room, _, _ := strings.Cut(rest, "/")
	return root + "/" + room
}

// isPassing reports whether a node is a measurement's, with the lists of its own root.
func isPassing(root, node string) bool {
	room := strings.TrimPrefix(roomOf(root, node), root+"/")
	return strings.HasPrefix(room, "scratch-") || strings.HasPrefix(room, "probe-")
}

// wrong names the first entry that should not be there, or is missing.
func wrong(x *facts, o Options, node string) string {
	i := slices.IndexFunc(x.survey.ACLs, func(n survey.NodeACL) bool { return n.Path == node })
	has, want := x.survey.ACLs[i].ACL, o.Client.NodeACL(node)
	for _, a := range has {
		if !slices.ContainsFunc(want, func(b zkclient.ACL) bool { return sameEntry(a, b) }) {
			return "there is " + knownEntry(a)
		}
	}
	for _, b := range want {
		if !slices.ContainsFunc(has, func(a zkclient.ACL) bool { return sameEntry(a, b) }) {
			return knownEntry(b) + " is missing"
		}
	}
	return ""
}

func knownEntry(a zkclient.ACL) string {
	return known(a.Scheme+":"+a.ID) + ":" + a.Permissions.String()
}

func sameList(has, want []zkclient.ACL) bool {
	within := func(all []zkclient.ACL, flip bool) func(zkclient.ACL) bool {
		return func(a zkclient.ACL) bool {
			return !slices.ContainsFunc(all, func(b zkclient.ACL) bool {
				if flip {
					return sameEntry(b, a)
				}
				return sameEntry(a, b)
			})
		}
	}
	return !slices.ContainsFunc(has, within(want, false)) && !slices.ContainsFunc(want, within(has, true))
}

// sameEntry compares an entry as ZooKeeper shows it, perhaps without the hash,
// with one of the configuration.
func sameEntry(has, want zkclient.ACL) bool {
	if has.Scheme != want.Scheme || has.Permissions != want.Permissions {
		return false
	}
	user, hash, _ := strings.Cut(has.ID, ":")
	wanted, _, _ := strings.Cut(want.ID, ":")
	return has.ID == want.ID || has.Scheme == "digest" && hash == "x" && user == wanted
}
