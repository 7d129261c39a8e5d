package zktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestPatternsOfPaths(t *testing.T) {
	for pattern, paths := range map[string]struct{ yes, no []string }{
		"/":                 {[]string{"/"}, []string{"/a", ""}},
		"/a":                {[]string{"/a"}, []string{"/", "/a/b", "/ab", "a"}},
		"/a/*":              {[]string{"/a/b", "/a/*"}, []string{"/a", "/a/b/c", "/ab/c"}},
		"/a/**":             {[]string{"/a/b", "/a/b/c"}, []string{"/", "/a", "/ab", "/b/a/c"}},
		"/**":               {[]string{"/a", "/a/b"}, []string{"/", ""}},
		"/a/**/z":           {[]string{"/a/z", "/a/b/z", "/a/b/c/z", "/a/z/z"}, []string{"/a", "/z", "/a/b", "/a/z/b"}},
		"/**/z":             {[]string{"/z", "/a/z"}, []string{"/", "/za"}},
		"/**/a/**/b":        {[]string{"/a/b", "/x/a/y/b"}, []string{"/b/a", "/a"}},
		"/a-*":              {[]string{"/a-", "/a-1"}, []string{"/a", "/a-/1"}},
		"/*-x-*":            {[]string{"/1-x-2", "/-x-", "/1-x-x-2"}, []string{"/1-x", "/x-x"}},
		"/*a":               {[]string{"/a", "/ba", "/aa"}, []string{"/ab", "/"}},
		"/[a]?":             {[]string{"/[a]?"}, []string{"/ab", "/a"}},
		"/locks/*/*-x-*":    {[]string{"/locks/1f/0-x-g"}, []string{"/locks/1f/0-s-g", "/locks/0-x-g"}},
		"/chroot/locks/**":  {[]string{"/chroot/locks/a"}, []string{"/locks/a"}},
		"/ünï/*":            {[]string{"/ünï/ß"}, []string{"/uni/ß"}},
		"/with space/a*b*c": {[]string{"/with space/abc", "/with space/a-b-c"}, []string{"/with space/acb"}},
	} {
		g, err := newGlob(pattern)
		require.NoError(t, err)
		for _, path := range paths.yes {
			require.True(t, g.matches(path), "%s should describe %q", pattern, path)
		}
		for _, path := range paths.no {
			require.False(t, g.matches(path), "%s should not describe %q", pattern, path)
		}
	}
}

func TestConditionsOfAMatch(t *testing.T) {
	parse := func(b body) Request {
		r, err := zkwire.ParseRequest(requestBody(5, b))
		require.NoError(t, err)
		q := newRequest(&r)
		q.Session, q.From = 7, []string{"A", "listener"}
		return q
	}
	transaction := parse(multi(create("/locks/a"), remove("/jobs/b")))
	sequential := parse(body{
		zkwire.OpCreate2, zkwire.Int32(zkwire.ACLs(zkwire.Buffer(zkwire.String(nil, "/locks/n-"), []byte("data")), nil), zkwire.EphemeralSequential),
	})
	watches := parse(body{zkwire.OpSetWatches2, append(zkwire.Int64(nil, 0), zkwire.Strings(zkwire.Strings(zkwire.Strings(
		zkwire.Strings(zkwire.Strings(nil, []string{"/d"}), []string{"/e"}), []string{"/c"}), nil), []string{"/r"})...)})

	for name, c := range map[string]struct {
		match   Match
		request Request
		want    bool
	}{
		"any":                               {Any(), transaction, true},
		"kind":                              {Op(Create), sequential, true},
		"one of the kinds":                  {Op(Delete, Create), sequential, true},
		"another kind":                      {Op(Delete, Multi), sequential, false},
		"inside a transaction":              {Op(Create), transaction, false},
		"containing":                        {Op(Multi).Containing(Delete), transaction, true},
		"any containing":                    {Any().Containing(SetData, Delete), transaction, true},
		"containing another":                {Any().Containing(SetData), transaction, false},
		"containing, no transaction":        {Any().Containing(Create), sequential, false},
		"containing with its path":          {Any().Containing(Delete).Path("/jobs/*"), transaction, true},
		"containing with another's path":    {Any().Containing(Delete).Path("/locks/*"), transaction, false},
		"path":                              {Any().Path("/locks/n-"), sequential, true},
		"path of an operation":              {Op(Multi).Path("/jobs/**"), transaction, true},
		"paths of two operations":           {Op(Multi).Path("/jobs/*").Path("/locks/*"), transaction, true},
		"one path that fits, one that does": {Op(Multi).Path("/jobs/*").Path("/x"), transaction, false},
		"other path":                        {Any().Path("/locks"), sequential, false},
		"path of a watch":                   {Op(SetWatches).Path("/r"), watches, true},
		"no path of a watch":                {Op(SetWatches).Path("/x"), watches, false},
		"dialer":                            {Any().From("A"), transaction, true},
		"dialer and listener":               {Any().From("A").From("listener"), transaction, true},
		"another dialer":                    {Any().From("B"), transaction, false},
		"session":                           {Any().Session(7), transaction, true},
		"another session":                   {Any().Session(8), transaction, false},
		"where":                             {Any().Where(func(q Request) bool { return q.Ephemeral && q.Sequential && string(q.Data) == "data" }), sequential, true},
		"where not":                         {Any().Where(func(q Request) bool { return q.Xid == 5 }).Where(func(Request) bool { return false }), sequential, false},
		"where in a transaction":            {Any().Where(func(q Request) bool { return q.Ops[1].Op == Delete && q.Ops[1].Version == -1 }), transaction, true},
		"event":                             {Event(), transaction, false},
	} {
		require.Equal(t, c.want, c.match.matchesRequest(&c.request), name)
	}
}

func TestEventsMatchByKindPathAndConnection(t *testing.T) {
	told := func(m Match) bool { return m.matchesEvent("NodeDeleted", "/locks/a", 7, []string{"A"}) }
	require.True(t, told(Event()))
	require.True(t, told(Event(NodeCreated, NodeDeleted).Path("/locks/*").From("A").Session(7)))
	require.False(t, told(Event(NodeCreated)))
	require.False(t, told(Event().Path("/locks")))
	require.False(t, told(Event().From("B")))
	require.False(t, told(Event().Session(8)))
	require.False(t, told(Any()))
}

func TestNarrowingAMatchLeavesTheOriginal(t *testing.T) {
	base := Op(Create).Path("/a/**").From("A").Containing(Create).Where(func(Request) bool { return true })
	before := base.String()
	for range 3 {
		_ = base.Path("/x").From("x").Containing(Check).Where(func(Request) bool { return false }).Nth(1).Session(1)
	}
	require.Equal(t, before, base.String())
}

func TestNumbersOfAMatch(t *testing.T) {
	for name, c := range map[string]struct {
		match Match
		want  []int
	}{
		"all":           {Any(), []int{1, 2, 3, 4, 5}},
		"one":           {Any().Nth(2), []int{2}},
		"some":          {Any().Times(2), []int{1, 2}},
		"some from one": {Any().Nth(2).Times(3), []int{2, 3, 4}},
	} {
		var got []int
		for n := 1; n <= 5; n++ {
			if c.match.covers(n) {
				got = append(got, n)
			}
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestMatchThatCanNeverBePanics(t *testing.T) {
	h := newHouse()
	for want, f := range map[string]func(){
		`zktest: Path: pattern "locks" does not begin with a slash`:      func() { Any().Path("locks") },
		`zktest: Path: pattern "/a/" has an empty element`:               func() { Any().Path("/a/") },
		`zktest: Path: pattern "/a**": ** is an element of its own`:      func() { Any().Path("/a**") },
		"zktest: Nth(0): the first is 1":                                 func() { Any().Nth(0) },
		"zktest: Times(0): at least 1":                                   func() { Any().Times(0) },
		"zktest: From: the name is empty":                                func() { Any().From("") },
		"zktest: Where is about requests, not about events":              func() { Event().Where(nil) },
		"zktest: Containing is about requests, not about events":         func() { Event().Containing(Create) },
		"zktest: DropRequest does not fit NodeDeleted /a":                func() { h.On(Event(NodeDeleted).Path("/a")).DropRequest() },
		"zktest: DropReply does not fit any event":                       func() { h.On(Event()).DropReply() },
		"zktest: HoldReply does not fit any event":                       func() { h.On(Event()).HoldReply() },
		"zktest: DelayReply does not fit any event":                      func() { h.On(Event()).DelayReply(1) },
		"zktest: Fail does not fit any event":                            func() { h.On(Event()).Fail(NoNode) },
		"zktest: DropEvent does not fit create":                          func() { h.On(Op(Create)).DropEvent() },
		"zktest: Delay(-1ns) is negative":                                func() { h.On(Any()).Delay(-1) },
		"zktest: Fail(0): 0 is no error":                                 func() { h.On(Any()).Fail(0) },
		"zktest: Hold: there is an action already: Delay(1ns) of create": func() { f := h.On(Op(Create)); f.Delay(1); f.Hold() },
	} {
		got := recovered(f)
		require.Contains(t, got, want)
	}
}

func recovered(f func()) (message any) {
	defer func() { message = recover() }()
	f()
	return nil
}
