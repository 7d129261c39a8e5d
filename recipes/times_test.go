package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A litteredRoot has one good record in each room, and bad ones beside it.
type litteredRoot struct {
	t     *testing.T
	c     *Client
	shell *zk.Conn
	ours  []zk.ACL
	grant *Grant
}

func newLitteredRoot(t *testing.T) *litteredRoot {
	server := zktest.RunT(t)
	c, err := NewClient(Config{Servers: []string{server.Addr()}, Root: "/l", Auth: &Digest{User: "ana", Password: "secret"}})
	require.NoError(t, err)
	shell, _, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(t, err)
	require.NoError(t, shell.AddAuth("digest", []byte("ana:secret")))
	l := &litteredRoot{t: t, c: c, shell: shell, ours: zk.DigestACL(zk.PermAll, "ana", "secret")}
	t.Cleanup(func() {
		shell.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, l.grant.Release(ctx))
		require.NoError(t, c.Close(ctx))
	})
	lock, err := c.PriorityLock("good")
	require.NoError(t, err)
	l.grant, err = lock.Acquire(t.Context(), Request{Owner: "holder"})
	require.NoError(t, err)
	return l
}

// put creates a node, and what is missing above it.
func (l *litteredRoot) put(path, data string, flags int32, acl []zk.ACL) {
	l.t.Helper()
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			_, _ = l.shell.Create(path[:i], nil, 0, l.ours) // else it is there
		}
	}
	_, err := l.shell.Create(path, []byte(data), flags, acl)
	require.NoError(l.t, err, path)
}

// litter puts junk, records of a newer program, and what this client may not read
// below a node. name makes their names.
func (l *litteredRoot) litter(below string, flags int32, name func(n int) string) (bad []string) {
	for n, data := range []string{"", `{"format":9}`, "[1]", "\x00\xff", `{"format":"1"}`, strings.Repeat("x", 1_000_000), "{}"} {
		acl := l.ours
		if n == 6 {
			acl = zk.DigestACL(zk.PermAll, "bob", "secret")
		}
		path := below + "/" + name(n)
		l.put(path, data, flags, acl)
		bad = append(bad, path)
	}
	slices.Sort(bad)
	return bad
}

func bad(n int) string { return fmt.Sprintf("bad%d", n) }

// requireLeft checks which nodes were left out, and that each says why.
func requireLeft(t *testing.T, bad []string, left []Unreadable) {
	t.Helper()
	var paths []string
	for _, u := range left {
		require.NotEmpty(t, u.Reason, u.Path)
		require.NotContains(t, u.Reason, "password")
		require.Less(t, len(u.Reason), 500)
		paths = append(paths, u.Path)
	}
	require.Equal(t, bad, paths)
}

func TestStatesOfJobsLeaveOutWhatCannotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	ledger := l.c.TickLedger("")
	_, err := ledger.RecordSkip(t.Context(), "good", "test", time.Now())
	require.NoError(t, err)
	want := append([]string{"/l/ticks/a%2"}, l.litter("/l/ticks", 0, bad)...)
	l.put("/l/ticks/a%2", "", 0, l.ours)

	states, left, err := ledger.States(t.Context())

	require.NoError(t, err)
	require.Len(t, states, 1)
	requireLeft(t, want, left)
	require.Equal(t, "bad0", left[1].Name)
	_, err = ledger.Claim(t.Context(), "bad0", time.Now(), TickAsk{})
	require.ErrorAs(t, err, new(*RecordError), "who decides by it is not lenient")
	_, err = ledger.Claim(t.Context(), "bad6", time.Now(), TickAsk{})
	require.ErrorAs(t, err, new(*AccessError))
}

func TestRequestsThatCannotBeReadAreToldBesideTheOthers(t *testing.T) {
	l := newLitteredRoot(t)
	ledger := l.c.TickLedger("")
	_, err := ledger.Request(t.Context(), TickRequest{Job: "good"})
	require.NoError(t, err)
	want := l.litter("/l/requests", 0, bad)

	all, err := ledger.AwaitRequests(t.Context(), TickRequests{})

	require.NoError(t, err)
	require.Len(t, all.Standing, 1)
	requireLeft(t, want, all.Unreadable)
	l.put("/l/requests/more", "", 0, l.ours)
	all, err = ledger.AwaitRequests(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, all.Unreadable, len(want)+1)
}

func TestGroupsLeaveOutWhatCannotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	group, err := l.c.Group(GroupSpec{Name: "good", Locks: []string{"a"}})
	require.NoError(t, err)
	_, err = group.Apply(t.Context())
	require.NoError(t, err)
	spec := GroupSpec{Name: "half", Locks: []string{"a"}, Holders: 1}
	l.put("/l/groups/half", string(spec.encode()), 0, l.ours) // without members
	want := append(l.litter("/l/groups", 0, bad), "/l/groups/good/members/x", "/l/groups/half")
	l.put("/l/groups/good/members/x", "", 0, l.ours)
	members := l.litter("/l/groups/good/members", zk.FlagEphemeral, func(n int) string { return fmt.Sprintf("m-%024x-%010d", n, n) })
	want = append(want, members...)
	slices.Sort(want)

	states, left, err := l.c.Groups(t.Context())

	require.NoError(t, err)
	require.Len(t, states, 1)
	require.Len(t, states[0].Members, len(members), "they are there")
	requireLeft(t, want, left)
	requireLeft(t, append(members, "/l/groups/good/members/x"), states[0].Unreadable)
	_, err = l.c.GroupState(t.Context(), "bad1")
	require.ErrorAs(t, err, new(*RecordError))
}

func TestApprovalsLeaveOutWhatCannotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	open, err := l.c.Approvals().Open(t.Context(), ApprovalRequest{Scope: "good"})
	require.NoError(t, err)
	want := append(l.litter("/l/approvals", 0, func(n int) string { return fmt.Sprintf("a-%010d", 700+n) }), "/l/approvals/x")
	l.put("/l/approvals/x", "", 0, l.ours)

	all, left, err := l.c.Approvals().List(t.Context())

	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, open.ID(), all[0].ID)
	requireLeft(t, want, left)
}

func TestAuditRecordsThatCannotBeReadAreLeftOut(t *testing.T) {
	l := newLitteredRoot(t)
	trail, err := l.c.AuditLog(0)
	require.NoError(t, err)
	for range 4 {
		_, err := trail.Append(t.Context(), AuditEntry{Action: AuditBreak, Phase: AuditIntent, By: "ana"})
		require.NoError(t, err)
	}
	junk, denied := "/l/audit/log/0000000002", "/l/audit/log/0000000003"
	_, err = l.shell.Set(junk, []byte("x"), -1)
	require.NoError(t, err)
	_, err = l.shell.SetACL(denied, zk.DigestACL(zk.PermAll, "bob", "secret"), -1)
	require.NoError(t, err)

	all, left, err := trail.Read(t.Context(), AuditQuery{})

	require.NoError(t, err)
	require.Len(t, all, 2)
	requireLeft(t, []string{junk, denied}, left)
	_, err = trail.Append(t.Context(), AuditEntry{Action: AuditBreak, Phase: AuditIntent, By: "ana"})
	require.NoError(t, err)
}

// litterLocks leaves junk in the place of locks, of requests, and of a list.
func (l *litteredRoot) litterLocks() (want []string) {
	good := lockPath("/l", "good")
	want = l.litter(good, zk.FlagEphemeral, func(n int) string { return fmt.Sprintf("2147483647-x-%024x-%010d", 700+n, 700+n) })
	for n, data := range []string{"x", `{"format":9}`, `{"format":1}`} {
		acl := l.ours
		if n == 2 {
			acl = zk.DigestACL(zk.PermAll, "bob", "secret")
		}
		l.put(lockPath("/l", bad(n)), data, 0, acl)
		want = append(want, lockPath("/l", bad(n)))
	}
	for _, bucket := range []string{"00", "01", "02", "03", "04", "05"} {
		if !slices.ContainsFunc(append(want, good), func(node string) bool { return strings.HasPrefix(node, "/l/locks/"+bucket+"/") }) {
			l.put("/l/locks/"+bucket, "", 0, zk.DigestACL(zk.PermAll, "bob", "secret"))
			want = append(want, "/l/locks/"+bucket)
			break
		}
	}
	misplaced := good + "%2"
	l.put(misplaced, "", 0, l.ours)
	want = append(want, misplaced)
	slices.Sort(want)
	return want
}

func TestLocksLeaveOutWhatCannotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	want := l.litterLocks()

	states, left, err := l.c.Locks(t.Context())

	require.NoError(t, err)
	requireLeft(t, want, left)
	i := slices.IndexFunc(states, func(s LockState) bool { return s.Scope == "good" })
	require.True(t, states[i].Held())
	require.Len(t, states[i].Unreadable, 7)

	found, err := l.c.CollectIdle(t.Context(), IdleOptions{Older: time.Hour})
	require.NoError(t, err)
	require.NotEmpty(t, found.Unreadable, "the list that may not be read")
}

func TestAHolderThatMayNotBeReadIsShown(t *testing.T) {
	l := newLitteredRoot(t)
	good := lockPath("/l", "good")
	names, _, err := l.shell.Children(good)
	require.NoError(t, err)
	_, err = l.shell.SetACL(good+"/"+names[0], zk.DigestACL(zk.PermAll, "bob", "secret"), -1)
	require.NoError(t, err)

	state, err := l.c.Lock(t.Context(), "good")

	require.NoError(t, err)
	require.Len(t, state.Holders, 1)
	require.Equal(t, "<unreadable>", state.Holders[0].Owner)
	requireLeft(t, []string{good + "/" + names[0]}, state.Unreadable)
}

func TestALookoutGoesOnThoughAListMayNotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	l.litterLocks()
	lookout, err := l.c.Lookout(LookoutOptions{})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var left []Unreadable
	held := false

	err = lookout.Run(ctx, func(s Sighting) {
		switch {
		case s.Unreadable != nil:
			left = s.Unreadable
		case s.Synced:
			stop()
		case s.State.Scope == "good":
			held = s.State.Held()
		}
	})

	require.ErrorIs(t, err, context.Canceled)
	require.True(t, held)
	require.Len(t, left, 2, "a list, and what is no lock")
}

func TestSurveyNamesEveryRecordThatCannotBeRead(t *testing.T) {
	l := newLitteredRoot(t)
	want := slices.Concat(l.litter("/l/ticks", 0, bad), l.litter("/l/groups", 0, bad), l.litter("/l/requests", 0, bad))
	want = slices.Concat(want, l.litter("/l/approvals", 0, func(n int) string { return fmt.Sprintf("a-%010d", n) }))
	l.put("/l/overrides", "x", 0, l.ours)
	l.put("/l/emergency/notes/bad", "x", 0, l.ours)
	want = append(want, "/l/overrides", "/l/emergency/notes/bad")
	want = append(want, l.litter("/l/emergency/frozen", zk.FlagEphemeral, bad)...)
	l.put("/l/identities", `{"format":1}`, 0, l.ours)
	want = append(want, "/l/identities")
	slices.Sort(want)

	survey, err := l.c.Survey(t.Context(), SurveyOptions{})

	require.NoError(t, err)
	require.True(t, survey.Complete)
	requireLeft(t, want, survey.Unreadable)
}

// A record that can be read may have times in it that JSON cannot write: one of them must
// not cost the whole list.
func TestTimesThatCannotBeWrittenDownAreMovedToWhereTheyCan(t *testing.T) {
	const late, early = `"9999-12-31T23:59:59-12:00"`, `"0000-01-01T00:00:00+12:00"`
	l := newLitteredRoot(t)
	for i, moment := range []string{late, early} {
		for j, ms := range []string{"9223372036854775807", "-9223372036854775808", "253402300800000"} {
			name := fmt.Sprintf("j%d%d", i, j)
			end := fmt.Sprintf(`{"id":"e","at":%s,"first":%s,"end":"done","ended":%s,"claimed":%s}`, moment, moment, ms, ms)
			run := fmt.Sprintf(`{"id":"r","at":%s,"cancel":%s,"claimed":%s}`, moment, moment, ms)
			l.put("/l/ticks/"+name, fmt.Sprintf(`{"format":2,"job":%q,"begins":%s,"last":%s,"waiting":[%s],"runs":[%s],"paused":{"until":%s,"at":%s,"for":%s},`+
				`"left_out":[{"after":%s,"until":%s}],"defs":[{"print":"1-a","first":0,"seen":%s},{"print":"1-b","first":0,"seen":%s}]}`+"\n%s",
				name, moment, moment, moment, run, moment, ms, ms, moment, moment, ms, ms, end), 0, l.ours)
			l.put("/l/emergency/frozen/"+name, fmt.Sprintf(`{"format":1,"id":"f","scope":"s","until":%s,"waited":%s}`, moment, ms), zk.FlagEphemeral, l.ours)
		}
	}

	states, left, err := l.c.TickLedger("").States(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	frozen, left, err := l.c.Frozen(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)

	require.Len(t, states, 6)
	require.Len(t, states[0].History, 1)
	require.Len(t, frozen, 6)
	for _, s := range states {
		_, err := json.Marshal(s)
		require.NoError(t, err, s.Job)
	}
	for _, s := range states[:3] { // they are far ahead
		_, err := l.c.TickLedger("").Rewind(t.Context(), s.Job, TickRewind{})
		require.NoError(t, err, s.Job)
	}
	for _, f := range frozen {
		_, err := json.Marshal(f)
		require.NoError(t, err)
	}
}
