package zkdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator invents steps. The same seed and the same answers make the same steps.
type generator struct {
	*rand.Rand
	clients int
	steps   int
	grown   []string // paths that a server has completed
}

func newGenerator(seed uint64, clients int) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0)), clients: clients}
}

// An era is how long a tree is used before a new one grows: a node that no client may touch any more is then
// forgotten.
const era = 1500

// learn takes in the paths that a step has created.
func (g *generator) learn(created []string) {
	for _, path := range created {
		if len(path) > 10 && path[len(path)-1] <= '9' && path[len(path)-1] >= '0' {
			g.grown = append(g.grown, path)
		}
	}
}

// one chooses with equal chances.
func one[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

// chance is true n times in 1000.
func (g *generator) chance(n int) bool { return g.IntN(1000) < n }

// next invents a step.
func (g *generator) next() Step {
	if g.steps++; g.steps%era == 0 {
		g.grown = nil
	}
	s := g.connectionStep()
	if s.Do == 0 {
		s = g.request()
	}
	s.On = g.IntN(g.clients)
	return s
}

// connectionStep invents something that is done to a connection, or, mostly, nothing.
func (g *generator) connectionStep() Step {
	if !g.chance(45) {
		return Step{}
	}
	switch n := g.IntN(100); {
	case n < 25:
		return Step{Do: CloseSession}
	case n < 45:
		return Step{Do: Drop}
	case n < 60:
		return Step{Do: Resume}
	case n < 67:
		return Step{Do: WrongPassword}
	case n < 74:
		return Step{Do: Stale, Back: int64(g.IntN(50))}
	case n < 78:
		return Step{Do: Unknown}
	case n < 83:
		return Step{Do: Ahead}
	case n < 88:
		return Step{Do: Greeting, Raw: g.badGreeting()}
	case n < 93:
		return Step{Do: Bytes, Raw: g.badBytes()}
	default:
		return Step{Do: Frame, Raw: g.badFrame()}
	}
}

func (g *generator) request() Step {
	var s Step
	switch n := g.IntN(1000); {
	case n < 230:
		s = g.create()
	case n < 340:
		s = Step{Do: Delete, Path: g.goner(), Version: g.version()}
	case n < 400:
		s = Step{Do: Exists, Path: g.path(), Watch: g.chance(600)}
	case n < 460:
		s = Step{Do: GetData, Path: g.path(), Watch: g.chance(600)}
	case n < 540:
		s = Step{Do: SetData, Path: g.path(), Data: g.data(), Version: g.version()}
	case n < 560:
		s = Step{Do: GetACL, Path: g.path()}
	case n < 590:
		s = g.setACL()
	case n < 630:
		s = Step{Do: GetChildren, Path: g.path(), Watch: g.chance(600)}
	case n < 670:
		s = Step{Do: GetChildren2, Path: g.path(), Watch: g.chance(600)}
	case n < 680:
		s = Step{Do: Sync, Path: g.path()}
	case n < 690:
		s = Step{Do: Check, Path: g.path(), Version: g.version()}
	case n < 790:
		s = g.multi()
	case n < 820:
		s = g.multiRead()
	case n < 840:
		s = g.auth()
	case n < 870:
		s = g.setWatches()
	case n < 920:
		s = Step{Do: AddWatch, Path: g.existing(), Mode: g.mode(2)}
	case n < 950:
		s = Step{Do: RemoveWatches, Path: g.path(), Mode: g.mode(3)}
	case n < 965:
		s = Step{Do: GetEphemerals, Path: one(g, "", "/", g.path())}
	case n < 980:
		s = Step{Do: GetAllChildrenNumber, Path: one(g, "/", g.path())}
	case n < 990:
		s = Step{Do: WhoAmI}
	case n < 993:
		s = Step{Do: SetData, Path: g.path(), Size: g.big(), Version: -1}
	case n < 995:
		s = Step{Do: DeleteContainer, Path: g.path()}
	default:
		s = Step{Do: Op(one[int32](g, -1, 0, 10, 23, 77, 99, 108, 1<<30))}
	}
	switch {
	case s.Do == CloseSession || s.Size > 0:
	case g.chance(6):
		s.Cut = 1 + g.IntN(12)
	case g.chance(4):
		s.Tail = 1 + g.IntN(8)
	}
	return s
}

func (g *generator) create() Step {
	s := Step{Do: Create, Path: g.path(), Data: g.data(), ACL: g.acl()}
	switch n := g.IntN(100); {
	case n < 45:
	case n < 65:
		s.Flags = ephemeral
	case n < 75:
		s.Flags = sequential
	case n < 85:
		s.Flags = ephemeralSequential
	case n < 92:
		s.Flags = container
	case n < 95:
		s.Flags = one(g, persistentTTL, sequentialTTL)
	default:
		s.Flags = one[int32](g, 7, 8, 15, -1, 1<<30, persistentTTL)
	}
	if s.Flags&sequential != 0 && g.chance(500) {
		s.Path += one(g, "-", "/", "-lock-", "1")
	}
	switch s.Flags {
	case container:
		s.Do = one(g, CreateContainer, CreateContainer, CreateContainer, Create, Create2)
	case persistentTTL, sequentialTTL:
		s.Do = one(g, CreateTTL, CreateTTL, CreateTTL, CreateTTL, Create, Create2)
	default:
		s.Do = one(g, Create, Create, Create2)
		if g.chance(10) {
			s.Do = one(g, CreateContainer, CreateTTL)
		}
	}
	if s.Do == CreateTTL {
		s.TTL = one(g, int64(1), 1000, 3_600_000, 0xffffffffff)
		// A real server dies of a bad one with flags for another kind of node.
		if (s.Flags == persistentTTL || s.Flags == sequentialTTL) && g.chance(300) {
			s.TTL = one(g, int64(0x10000000000), 0, -1, 1<<62)
		}
	}
	return s
}

func (g *generator) setACL() Step {
	s := Step{Do: SetACL, Path: g.path(), ACL: g.acl(), Version: g.version()}
	if s.Path == "/" && s.ACL != nil { // no step may lock the whole tree
		s.ACL = append([]ACL{everybody[0]}, s.ACL...)
	}
	return s
}

func (g *generator) multi() Step {
	s := Step{Do: Multi, Subs: []Step{}}
	for range g.IntN(6) {
		var sub Step
		switch n := g.IntN(100); {
		case n < 35:
			sub = g.create()
		case n < 60:
			sub = Step{Do: Delete, Path: g.goner(), Version: g.version()}
		case n < 80:
			sub = Step{Do: SetData, Path: g.path(), Data: g.data(), Version: g.version()}
		case n < 98:
			sub = Step{Do: Check, Path: g.path(), Version: g.version()}
		default:
			sub = Step{Do: one(g, GetData, Exists, SetACL, Multi, Op(77)), Path: g.path()}
		}
		s.Subs = append(s.Subs, sub)
	}
	return s
}

func (g *generator) multiRead() Step {
	s := Step{Do: MultiRead, Subs: []Step{}}
	for range g.IntN(5) {
		sub := Step{Do: one(g, GetData, GetData, GetChildren), Path: g.path(), Watch: g.chance(50)}
		if g.chance(20) {
			sub = Step{Do: one(g, Exists, GetChildren2, Create, Check), Path: g.path()}
		}
		s.Subs = append(s.Subs, sub)
	}
	return s
}

func (g *generator) auth() Step {
	s := Step{Do: Auth, Scheme: "digest", Data: []byte(one(g, "ann:secret", "bob:secret"))}
	if g.chance(150) {
		s.Scheme = one(g, "ip", "digest", "world", "nope", "", "auth", null)
		s.Data = one(g, []byte("x"), []byte{}, []byte("a:b:c"), []byte(":"), []byte("ann"), nil)
	}
	return s
}

func (g *generator) setWatches() Step {
	s := Step{Do: SetWatches, Back: int64(one(g, -1, -1, 0, 1, 3, 10, 50, 1000))}
	lists := 3
	if g.chance(500) {
		s.Do, lists = SetWatches2, 5
	}
	for range lists {
		list := []string{}
		for range g.IntN(4) {
			list = append(list, g.existing())
		}
		if g.chance(5) {
			list = nil
		}
		s.Paths = append(s.Paths, list)
	}
	return s
}

// mode is one of 0 to n-or-less, which has a meaning or, sometimes, has none.
func (g *generator) mode(n int) int32 {
	if g.chance(50) {
		return one[int32](g, -1, 2, 3, 4, 5, 6, 100)
	}
	if n == 2 {
		return g.Int32N(2)
	}
	return one[int32](g, 1, 2, 3)
}

func (g *generator) version() int32 {
	switch n := g.IntN(100); {
	case n < 60:
		return -1
	case n < 98:
		return g.Int32N(4)
	default:
		return one[int32](g, -2, 1<<31-1, -1<<31, 100)
	}
}

func (g *generator) data() []byte {
	switch n := g.IntN(10); {
	case n < 2:
		return nil
	case n < 4:
		return []byte{}
	default:
		return []byte(one(g, "x", "yy", "hello", "\x00\xff"))
	}
}

// jute.maxbuffer, the longest frame that a server takes.
const maxFrame = 0xfffff

// big is the size of data for a SetData that comes near the limit of a frame.
func (g *generator) big() int {
	return one(g, 10_000, maxFrame-100, maxFrame-g.IntN(40), maxFrame+1+g.IntN(40))
}

// path is, mostly, that of a node of a small tree.
func (g *generator) path() string {
	switch n := g.IntN(1000); {
	case n < 880:
		return g.treePath()
	case n < 930 && len(g.grown) > 0:
		return one(g, g.grown...)
	case n < 955:
		return "/"
	case n < 975:
		return one(g, "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/zookeeper/quota/a", "/zookeeper/x")
	case n < 980:
		return one(g, g.treePath()+"/zookeeper", "/zookeeper2", "/none", "/none/x")
	default:
		return g.badPath()
	}
}

// existing is a path that is not null. A real server that watches null recursively cannot close the connection again.
func (g *generator) existing() string {
	for {
		if path := g.path(); path != null {
			return path
		}
	}
}

func (g *generator) treePath() string {
	path := "/" + one(g, "a", "b", "c")
	if n := g.steps / era; n > 0 {
		path += fmt.Sprint(n)
	}
	depth := g.IntN(100)
	if depth < 60 {
		path += "/" + one(g, "x", "y", "z")
	}
	if depth < 20 {
		path += "/" + one(g, "l", "m")
	}
	return path
}

// goner is a node that may go: those that servers have named would become too many.
func (g *generator) goner() string {
	if n := len(g.grown); n > 0 && g.IntN(100) < 20+n {
		i := g.IntN(n)
		path := g.grown[i]
		g.grown[i] = g.grown[n-1]
		g.grown = g.grown[:n-1]
		return path
	}
	return g.path()
}

func (g *generator) badPath() string {
	tree := g.treePath()
	return one(g, "", "a", tree[1:], tree+"/", "//"+tree[1:], tree+"//x", tree+"/.", tree+"/..", "/./a", "/../a", tree+"/.x",
		tree+"/...", "/\x00", tree+"/a\x00b", tree+"/\x01", tree+"/\x1f", tree+"/ ", tree+"/\x7f", tree+"/\u0080", tree+"/\u00a0",
		tree+"/ä", tree+"/漢", tree+"/\ue000", tree+"/\uf900", tree+"/\ufff0", tree+"/\uffff", tree+"/😀", tree+"/\xff",
		tree+"/\xc3", tree+"/\xed\xa0\x80", "/"+strings.Repeat("n", 300), null)
}

func (g *generator) acl() []ACL {
	if !g.chance(200) {
		return everybody
	}
	switch g.IntN(4) {
	case 0:
		return []ACL{g.ace()}
	case 1:
		return []ACL{g.ace(), g.ace()}
	case 2:
		return []ACL{everybody[0], g.ace()}
	default:
		return one(g, nil, []ACL{}, []ACL{{31, "auth", ""}}, []ACL{{1, "world", "anyone"}},
			[]ACL{{31, "digest", annsDigest}}, []ACL{{1, "world", "anyone"}, {31, "auth", ""}})
	}
}

// The digests of ann:secret and bob:secret.
const (
	annsDigest = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="
	bobsDigest = "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="
)

func (g *generator) ace() ACL {
	perms := one[int32](g, 31, 31, 31, 1, 2, 3, 4, 8, 15, 16, 0, 27)
	switch n := g.IntN(100); {
	case n < 25:
		return ACL{perms, "world", "anyone"}
	case n < 45:
		return ACL{perms, "digest", one(g, annsDigest, bobsDigest)}
	case n < 60:
		return ACL{perms, "auth", one(g, "", "x", "ann:secret")}
	case n < 75:
		return ACL{perms, "ip", one(g, "127.0.0.1", "10.0.0.1", "127.0.0.0/8", "127.0.0.1/32", "126.0.0.0/7", "0.0.0.0/0")}
	default:
		return ACL{
			one[int32](g, perms, 32, -1, 1<<20),
			one(g, "world", "digest", "ip", "auth", "nope", "", "sasl", "x509", "super", null),
			one(g, "anyone", "", "ann", "a:b:c", "a:b", ":", "127.0.0.1/33", "127.0.0.1/-1", "127.0.0.1/x", "127.0.0", "1.2.3.4.5",
				"256.1.1.1", "::1", "127.0.0.1/8/8", "/8", null),
		}
	}
}

func (g *generator) badGreeting() []byte {
	good := greeting(session{}, 0, longSession)
	switch g.IntN(4) {
	case 0:
		return good[:len(good)-1] // as old clients do, without the flag for read-only servers
	case 1:
		return good[:g.IntN(len(good)-1)]
	case 2:
		return append(good, make([]byte, 1+g.IntN(4))...)
	default:
		good[24+g.IntN(4)] ^= byte(1 + g.IntN(255)) // the length of the password
		return good
	}
}

func (g *generator) badBytes() []byte {
	var e encoder
	e.int32(one[int32](g, -1, -1<<31, -2, maxFrame+1, 1<<31-1, 0x01000000, 0))
	return append(e.buf, make([]byte, g.IntN(20))...)
}

func (g *generator) badFrame() []byte {
	raw := make([]byte, g.IntN(40))
	for i := range raw {
		raw[i] = byte(g.Uint32())
	}
	if len(raw) >= 8 && g.chance(800) { // a request, then rubbish
		var e encoder
		e.int32(int32(g.IntN(1000) + 1))
		e.int32(one[int32](g, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 100, 101, 103, 104, 105, 106, 107))
		copy(raw, e.buf)
	}
	return raw
}
