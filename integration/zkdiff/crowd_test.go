package zkdiff

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Many clients at once, each with several requests on their way. Who comes first is not the same on two servers. The
// same is what each client does to a tree of its own, how many nodes and writes a shared place has in the end, and
// how many zxids all of it took. On either server each client hears its answers in order, never goes back in time,
// and is notified of a change before it can see it.
func TestCrowd(t *testing.T) {
	const clients, batches = 8, 300
	p, err := launchPair(t.Context(), oracle, embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.close()) }()

	expected, complaints := crowd(p.real.server, clients, batches)
	require.Empty(t, complaints, "the real server")
	actual, complaints := crowd(p.fake.server, clients, batches)
	require.Empty(t, complaints, "the fake")

	require.NotEmpty(t, expected)
	require.Equal(t, expected, actual, "the trees; expected: the real server's, actual: the fake's")
}

// crowd lets clients loose on a server. It returns the tree that they leave and what was wrong on the way.
func crowd(on server, clients, batches int) (tree string, complaints []string) {
	s := newSide(on, 1)
	defer s.close()
	s.do(Step{Do: Create, Path: "/shared", ACL: everybody})
	s.do(Step{Do: Create, Path: queue, ACL: everybody})
	for i := range clients {
		s.do(Step{Do: Create, Path: fmt.Sprintf("/own%d", i), ACL: everybody})
	}

	members := make([]*member, clients)
	var all sync.WaitGroup
	for i := range members {
		members[i] = newMember(on, i, clients)
		all.Go(func() { members[i].run(batches) })
	}
	all.Wait()
	for _, m := range members {
		complaints = append(complaints, m.complaints...)
	}

	var text strings.Builder
	o := s.do(Step{Do: Exists, Path: "/shared"}) // brings the zxid
	s.hearTree(&text, "/")
	fmt.Fprintf(&text, "zxid %d %v\n", s.zxid, len(o.heard[0]))
	for _, m := range members {
		m.conn.Close()
	}
	return text.String(), complaints
}

// hearTree writes down all that does not depend on who came first. In the queue that is which numbers were given, and
// how many of them are ephemeral.
func (s *side) hearTree(text *strings.Builder, path string) stat {
	children, st := s.children(path)
	fmt.Fprintf(text, "%s version=%d cversion=%d aversion=%d length=%d children=%d",
		path, st.version, st.cversion, st.aversion, st.length, st.children)
	if !strings.HasPrefix(path, queue+"/") {
		fmt.Fprintf(text, " ephemeral=%t", st.owner != 0)
	}
	text.WriteByte('\n')
	slices.Sort(children)
	ephemerals := 0
	for _, name := range children {
		if child := s.hearTree(text, strings.TrimSuffix(path, "/")+"/"+name); child.owner != 0 {
			ephemerals++
		}
	}
	fmt.Fprintf(text, "%s has %d ephemeral nodes\n", path, ephemerals)
	return st
}

const queue = "/shared/queue"

func (s *side) children(path string) ([]string, stat) {
	c := s.clients[0]
	c.next++
	c.conn.send(Step{Do: GetChildren2, Path: path}.frame(c.next, 0))
	frame, err := c.conn.receive(patience)
	if err != nil {
		return []string{err.Error()}, stat{}
	}
	d := decoder{buf: frame}
	if h := d.header(); h.code != 0 {
		return []string{fmt.Sprintf("error %d", h.code)}, stat{}
	}
	return d.strings(), d.stat()
}

// member is one client of a crowd. It holds a server to what is promised to every client.
type member struct {
	*rand.Rand
	conn       *conn
	number, of int
	next       int32
	zxid       int64
	seen       map[watched]int64 // the last state seen with a watch that has not fired: mzxid, pzxid, or 0 for no node
	complaints []string
}

// watched is what a one-shot watch is set on.
type watched struct {
	path     string
	children bool
}

func newMember(on server, number, of int) *member {
	m := &member{Rand: rand.New(rand.NewPCG(42, uint64(number))), number: number, of: of, seen: map[watched]int64{}}
	s := newSide(on, 1)
	o := outcome{heard: make([][]string, 2)}
	if m.conn, _ = s.connect(&o, 0, session{}, 0); m.conn == nil {
		m.complain("%v", o.heard)
	}
	return m
}

func (m *member) complain(format string, args ...any) {
	m.complaints = append(m.complaints, fmt.Sprintf("client %d: ", m.number)+fmt.Sprintf(format, args...))
}

func (m *member) run(batches int) {
	for range batches {
		if len(m.complaints) > 0 {
			return
		}
		steps := make([]Step, 1+m.IntN(6))
		frames := make([][]byte, len(steps))
		for i := range steps {
			steps[i] = m.step()
			frames[i] = steps[i].frame(m.next+int32(i)+1, 0)
		}
		m.conn.send(frames...)
		for _, step := range steps {
			m.next++
			m.hear(step)
		}
	}
}

// step is something that has the same effect whenever others do something.
func (m *member) step() Step {
	own := fmt.Sprintf("/own%d/%s", m.number, []string{"a", "b", "c", "a/d", "b/e"}[m.IntN(5)])
	other := fmt.Sprintf("/own%d", m.IntN(m.of))
	if m.IntN(2) == 0 {
		other += []string{"/a", "/b", "/c"}[m.IntN(3)]
	}
	watch := m.IntN(2) == 0
	switch m.IntN(12) {
	case 0:
		return Step{Do: Create, Path: own, ACL: everybody}
	case 1:
		return Step{Do: Create2, Path: own, ACL: everybody, Flags: ephemeral}
	case 2:
		return Step{Do: Create, Path: own + "-", ACL: everybody, Flags: sequential}
	case 3:
		return Step{Do: Delete, Path: own, Version: -1}
	case 4:
		return Step{Do: SetData, Path: own, Data: make([]byte, m.IntN(10)), Version: m.Int32N(4) - 1}
	case 5:
		return Step{Do: Multi, Subs: []Step{
			{Do: Create, Path: own, ACL: everybody},
			{Do: SetData, Path: own, Data: []byte("multi"), Version: -1},
			{Do: Create, Path: queue + "/n-", ACL: everybody, Flags: sequential},
			{Do: Check, Path: own, Version: 1},
		}}
	case 6:
		return Step{Do: Create, Path: queue + "/n-", ACL: everybody, Flags: ephemeralSequential}
	case 7:
		return Step{Do: SetData, Path: "/shared", Data: []byte("same"), Version: -1}
	case 8:
		return Step{Do: GetChildren2, Path: []string{queue, other}[m.IntN(2)], Watch: watch}
	case 9:
		return Step{Do: Exists, Path: other, Watch: watch}
	case 10:
		return Step{Do: GetData, Path: "/shared", Watch: watch}
	default:
		return Step{Do: GetData, Path: other, Watch: watch}
	}
}

// hear reads up to the answer to a step.
func (m *member) hear(step Step) {
	for {
		frame, err := m.conn.receive(patience)
		if err != nil {
			m.complain("%s: %v", step, err)
			return
		}
		d := decoder{buf: frame}
		h := d.header()
		if h.xid == eventXid {
			m.told(d.int32(), d.int32(), d.string())
			continue
		}
		if h.xid != m.next {
			m.complain("%s: answer %d instead of %d", step, h.xid, m.next)
		}
		if h.zxid < m.zxid {
			m.complain("%s: zxid %d after %d", step, h.zxid, m.zxid)
		}
		m.zxid = h.zxid
		m.see(step, h, &d)
		return
	}
}

// told forgets the watches that an event has used up.
func (m *member) told(kind, _ int32, path string) {
	if kind != nodeChildrenChanged {
		delete(m.seen, watched{path, false})
	}
	if kind == nodeChildrenChanged || kind == nodeDeleted {
		delete(m.seen, watched{path, true})
	}
}

// see compares what an answer shows with what was seen before: a difference must have been told.
func (m *member) see(step Step, h header, d *decoder) {
	var now int64
	w := watched{path: step.Path}
	switch {
	case h.code != 0 && h.code != noNode:
		return
	case step.Do == GetData && h.code == 0:
		d.bytes()
		now = d.stat().mzxid
	case step.Do == Exists && h.code == 0:
		now = d.stat().mzxid
	case step.Do == GetChildren2:
		w.children = true
		if h.code == 0 {
			d.strings()
			now = d.stat().pzxid
		}
	case step.Do != Exists && step.Do != GetData:
		return
	}
	if before, watching := m.seen[w]; watching && before != now {
		m.complain("%s: saw zxid %d and was told of nothing, now sees %d", step, before, now)
	}
	if step.Watch && (h.code == 0 || step.Do == Exists) {
		m.seen[w] = now
	}
}

const noNode = -101

// A server that tells of changes too late, answers in another order or goes back in time is found out.
func TestCrowdNoticesBrokenPromises(t *testing.T) {
	reply := func(xid int32, zxid int64, body func(*encoder)) []byte {
		var e encoder
		e.int32(xid)
		e.int64(zxid)
		e.int32(0)
		body(&e)
		return e.buf
	}
	state := func(mzxid int64) func(*encoder) {
		return func(e *encoder) {
			e.int64(1)
			e.int64(mzxid)
			e.buf = append(e.buf, make([]byte, 52)...)
		}
	}
	changed := reply(eventXid, -1, func(e *encoder) {
		e.int32(nodeDataChanged)
		e.int32(3)
		e.string("/x")
	})
	look := Step{Do: Exists, Path: "/x", Watch: true}
	cases := map[string]struct {
		frames [][]byte
		wrong  string
	}{
		"keeps its promises": {[][]byte{reply(1, 5, state(5)), changed, reply(2, 6, state(6))}, ""},
		"tells too late":     {[][]byte{reply(1, 5, state(5)), reply(2, 6, state(6)), changed}, "was told of nothing"},
		"goes back in time":  {[][]byte{reply(1, 5, state(5)), reply(2, 4, state(5))}, "zxid 4 after 5"},
		"mixes up answers":   {[][]byte{reply(2, 5, state(5)), reply(1, 5, state(5))}, "answer 2 instead of 1"},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			m := &member{conn: &conn{Conn: near, in: bufio.NewReader(near)}, seen: map[watched]int64{}}
			go (&conn{Conn: far}).send(cases[name].frames...)
			for range 2 {
				m.next++
				m.hear(look)
			}
			if cases[name].wrong == "" {
				require.Empty(t, m.complaints)
				return
			}
			require.NotEmpty(t, m.complaints)
			require.Contains(t, m.complaints[0], cases[name].wrong)
		})
	}
}
