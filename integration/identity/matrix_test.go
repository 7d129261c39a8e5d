package identity

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// named connects somebody who has the three lists: Ana operates, Keeper and
// Worker contend, Rita reads.
func (h *fixture) named(u user) *lock.Client {
	h.Helper()
	return h.connect(h.namedConfig(u))
}

func (h *fixture) namedConfig(u user) lock.Config {
	return lock.Config{
		Servers: []string{h.Server.Addr()}, Root: h.Root, SessionTimeout: 10 * time.Second, Auth: &lock.Digest{User: u.name, Password: u.password},
		Operators: ids(ana), Contenders: ids(keeper, worker), Readers: ids(rita),
	}
}

func (h *fixture) connect(cfg lock.Config) *lock.Client {
	h.Helper()
	return harness.NewClient(h, cfg)
}

// newNamed is a fortress with the three lists.
func newNamed(t *testing.T) *fortress {
	t.Helper()
	h := newFixture(t)
	operator := h.named(ana)
	require.NoError(t, operator.MakeRoot(h.Context()))
	return h.furnish(h.named(keeper), operator)
}

// mayOn is the table of docs/security.md: what contenders may do with a node. A
// path of the table with a star stands for all below it.
var mayOn = []struct{ path, contenders string }{
	{"", "r"},
	{"/overrides", "r"},
	{"/seal", "r"},
	{"/identities", "r"},
	{"/approvals", "cdrw"},
	{"/approvals/*", "r"},
	{"/audit", "rw"},
	{"/audit/log", "cdr"},
	{"/audit/log/*", "r"},
	{"/locks*", "cdrw"},
	{"/ticks*", "cdrw"},
	{"/requests*", "cdrw"},
	{"/groups*", "cdrw"},
	{"/clock", "cdrw"},
	{"/emergency*", "cdrw"},
}

func contendersMayOn(t *testing.T, node string) string {
	t.Helper()
	for _, row := range mayOn {
		prefix, below := strings.CutSuffix(row.path, "*")
		if node == row.path || below && strings.HasPrefix(node, prefix) {
			return row.contenders
		}
	}
	return "cdrw" // rooms that are newer than the table: locks' own
}

// For each kind of node, each creator and each user who tries an operation by
// the bare protocol: the table says whether that works.
func TestWhoMayDoWhatIsTheTable(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	nodes := f.tree(f.shell(ana), f.Root)
	require.Greater(t, len(nodes), 15)
	for _, room := range []string{"locks", "ticks", "requests", "groups", "clock", "emergency", "overrides", "approvals", "audit", "audit/log", "seal", "identities"} {
		require.Contains(t, nodes, f.Root+"/"+room)
	}
	kinds := map[string]struct {
		users  []user
		rights func(node string) string
	}{
		"operators":  {[]user{ana}, func(string) string { return "cdrwa" }},
		"contenders": {[]user{keeper, worker}, func(node string) string { return contendersMayOn(t, node) }},
		"readers":    {[]user{rita}, func(string) string { return "r" }},
		"strangers":  {[]user{anonymous, eve, eveAsAna}, func(string) string { return "" }},
	}
	for _, k := range kinds {
		for _, u := range k.users {
			f.mayDo(u, nodes, k.rights)
		}
	}
	require.Len(t, f.tree(f.shell(ana), f.Root), len(nodes))
	require.NoError(t, f.named(keeper).CheckAccess(f.Context()))
	require.NoError(t, f.named(ana).CheckAccess(f.Context()))
	require.NoError(t, f.named(rita).CheckAccess(f.Context()))
}

// mayDo tries everything with each node by the bare protocol: it works with the right alone.
func (f *fortress) mayDo(u user, nodes map[string]node, rightsOn func(node string) string) {
	f.Helper()
	shell := f.shell(u)
	for node, n := range nodes {
		rights := rightsOn(strings.TrimPrefix(node, f.Root))
		for _, try := range tries(shell, node, n) {
			err, what := try.do(), u.name+": "+try.what+" "+node
			switch {
			case !strings.Contains(rights, try.right):
				require.ErrorIs(f, err, zk.ErrNoAuth, what)
			case try.otherwise != nil:
				require.ErrorIs(f, err, try.otherwise, what)
			default:
				require.NoError(f, err, what)
			}
		}
	}
}

// An attempt needs a right, and changes nothing that counts. Otherwise is what
// comes of it with the right, where that is not success.
type attempt struct {
	what, right string
	do          func() error
	otherwise   error
}

func tries(shell *zk.Conn, node string, n node) []attempt {
	all := []attempt{
		{"read", "r", func() error { _, _, err := shell.Get(node); return err }, nil},
		{"list", "r", func() error { _, _, err := shell.Children(node); return err }, nil},
		{"watch", "r", func() error { _, _, _, err := shell.GetW(node); return err }, nil},
		{"read the ACL of", "r", func() error { _, _, err := shell.GetACL(node); return err }, nil},
		{"write", "w", func() error { _, err := shell.Set(node, []byte("x"), 1<<30); return err }, zk.ErrBadVersion},
		{"write in a multi", "w", func() error { return multi(shell, &zk.SetDataRequest{Path: node, Data: []byte("x"), Version: 1 << 30}) }, zk.ErrBadVersion},
		{"change the ACL of", "a", func() error { _, err := shell.SetACL(node, n.acl, 1<<30); return err }, zk.ErrBadVersion},
	}
	if n.stat.EphemeralOwner != 0 {
		return all
	}
	below := path.Join(node, "probe-of-the-table")
	return append(all,
		attempt{"make below", "c", func() error {
			return multi(shell, &zk.CreateRequest{Path: below, Acl: zk.WorldACL(zk.PermAll)}, &zk.CheckVersionRequest{Path: below, Version: 7})
		}, zk.ErrBadVersion},
		attempt{"make in sequence below", "c", func() error {
			return multi(shell, &zk.CreateRequest{Path: below, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}, &zk.CheckVersionRequest{Path: "/", Version: 7})
		}, zk.ErrBadVersion},
	)
}

// To remove a node takes the right on its parent, whatever its own list says.
func TestWhatContendersMayNotRemoveTheyCannotReplace(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	for _, u := range []user{keeper, rita, anonymous, eve} {
		shell := f.shell(u)
		for _, room := range []string{"overrides", "seal", "identities", "clock", "audit", "locks", "requests"} {
			at := f.Root + "/" + room
			require.ErrorIs(t, shell.Delete(at, -1), zk.ErrNoAuth, "%s: %s", u.name, at)
			require.ErrorIs(t, multi(shell, &zk.DeleteRequest{Path: at, Version: -1}, &zk.CreateRequest{Path: at, Acl: zk.WorldACL(zk.PermAll)}), zk.ErrNoAuth, "%s: %s", u.name, at)
		}
		_, err := shell.Create(f.Root+"/new", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth, u.name)
	}
}

// Several identities contend for one lock, and write each other's nodes.
func TestContendersPreemptEachOther(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	urgent := f.Hold(f.Lock(f.named(worker), "cluster/orders"), "urgent", harness.At(5), harness.Forceful, harness.Waiting(0))
	require.Equal(t, lock.LossTaken, f.held.Lost().Err.Reason)
	again := f.Acquire(f.Lock(f.daemon, "cluster/orders"), "batch")
	again.Queued()
	require.Len(t, f.State(f.named(rita), "cluster/orders").Waiters, 1)
	urgent.Release()
	again.Release() // handed over to another identity
	record, err := f.audit(f.named(worker)).Append(f.Context(), entry("urgent"))
	require.NoError(t, err)
	require.Equal(t, "digest:worker", record.Identity)
	report, err := f.audit(f.named(worker)).Verify(f.Context())
	require.NoError(t, err)
	require.Nil(t, report.Broken)
	require.Nil(t, report.Untrusted)
	require.EqualValues(t, 2, report.To)
}

func TestContendersAreNoOperators(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	c := f.named(worker)
	deeds := f.deeds(c)
	deeds["make the root"] = func() error { return c.MakeRoot(f.Context()) }
	for _, what := range []string{"apply an override", "clear an override", "decide", "break the lock", "make the root"} {
		var refused *lock.IdentityError
		require.ErrorAs(t, deeds[what](), &refused, what)
		require.Equal(t, []string{"digest:ana"}, refused.Operators)
	}
	// and believe what operators say, though they cannot see their hashes
	f.watch(c).sees("INC-1")
	f.watch(f.named(rita)).sees("INC-1")
	require.NoError(t, f.named(ana).Approvals().Decide(f.Context(), f.question.ID(), opstore.Decision{Approved: true, By: "ana"}))
	d, err := f.question.Decision(f.Context())
	require.NoError(t, err)
	require.True(t, d.Approved)
}

func TestReadersSeeAllAndLearnWhichRightTheyLack(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	before := f.tree(f.shell(ana), f.Root)
	c := f.named(rita)
	all, _, err := c.Locks(f.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Held())
	lookout, err := c.Lookout(lock.LookoutOptions{})
	require.NoError(t, err)
	var seen []lock.State
	looking, enough := context.WithCancel(f.Context())
	require.ErrorIs(t, lookout.Run(looking, func(s lock.Sighting) {
		if s.Synced {
			enough()
			return
		}
		seen = append(seen, s.State)
	}), context.Canceled)
	require.Len(t, seen, 1)
	require.True(t, seen[0].Held())
	deeds := f.deeds(c)
	for what, try := range deeds {
		if strings.HasPrefix(what, "read") || strings.HasPrefix(what, "hear") {
			require.NoError(t, try(), what)
		}
	}
	report, err := f.audit(c).Verify(f.Context())
	require.NoError(t, err)
	require.Nil(t, report.Untrusted)
	below, err := survey.Take(f.Context(), c.Client, survey.Options{})
	require.NoError(t, err)
	require.Empty(t, below.Refused)
	require.Empty(t, below.Strangers)

	for what, right := range map[string]zkclient.Permission{
		"queue": zkclient.PermissionCreate, "take another lock": zkclient.PermissionCreate, "ask for a decision": zkclient.PermissionCreate,
		"append a record": zkclient.PermissionWrite, "resume a job": zkclient.PermissionWrite,
	} {
		err := deeds[what]()
		var denied *lock.AccessError
		require.ErrorAs(t, err, &denied, what)
		require.True(t, denied.Reader, what)
		require.Equal(t, right, denied.Right, "%s: %v", what, err)
		require.ErrorContains(t, err, `"rita"; it is one of zookeeper.readers, who may read alone`)
		require.ErrorContains(t, err, "missing is the right to ")
	}
	require.Equal(t, before, f.tree(f.shell(ana), f.Root))
}

// Only an operator makes the root: who comes first could put anything there.
func TestContendersDoNotMakeTheRoot(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	err := works(h.Context(), h.named(keeper))
	var none *lock.NoRootError
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, h.Root+" does not exist, and only an operator may make it; let one run: lockkeeper init")
	_, err = h.audit(h.named(keeper)).Append(h.Context(), entry("batch"))
	require.ErrorAs(t, err, &none)
	there, _, err := h.shell(anonymous).Exists(h.Root)
	require.NoError(t, err)
	require.False(t, there)

	// an operator's command makes it, whatever that is about
	_, err = h.named(ana).Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	require.NoError(t, works(h.Context(), h.named(keeper)))
	h.watch(h.named(keeper)).sees("INC-1")
}

// A stranger who was first, calls herself like an operator, and lets everyone
// in, differs from the operator by the seal: she does not know Ana's hash.
func TestContendersTellAnOperatorFromAStrangerOfThatName(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	everybody := zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}
	h.squat(eveAsAna, h.Root, nil, digest(eveAsAna), everybody)
	h.squat(eveAsAna, h.Root+"/overrides", forged("INC-9"), digest(eveAsAna), everybody)
	seals := map[string][]byte{"none": nil, "of another": []byte(`{"format":1,"operators":["AAAA"]}`), "unreadable": []byte("{")}
	for name, seal := range seals {
		if seal != nil {
			h.squat(eveAsAna, h.Root+"/seal", seal, digest(eveAsAna), everybody)
		}
		for _, u := range []user{keeper, rita} {
			told := h.watch(h.named(u)).next()
			var untrusted *lock.UntrustedError
			require.ErrorAs(t, told.err, &untrusted, name)
			require.Equal(t, "digest:ana:cdrwa", untrusted.Entry)
			require.ErrorContains(t, told.err, "/seal does not say that it is one of zookeeper.operators")
		}
		if seal != nil {
			require.NoError(t, h.shell(eveAsAna).Delete(h.Root+"/seal", -1))
		}
	}
	_, err := h.named(ana).Overrides().List(h.Context()) // who sees no more either
	require.ErrorAs(t, err, new(*lock.UntrustedError))
	require.ErrorAs(t, h.named(ana).MakeRoot(h.Context()), new(*lock.AccessError))
}

// What a board of contenders says is not believed, wherever it comes from.
func TestBoardThatAContenderCouldWriteIsNotTrusted(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	shell := f.shell(ana)
	acl, _, err := shell.GetACL(f.Root + "/overrides")
	require.NoError(t, err)
	_, err = shell.SetACL(f.Root+"/overrides", append(acl, digest(worker)), -1)
	require.NoError(t, err)
	f.doubted(f.named(keeper), f.Root+"/overrides", "digest:worker:cdrwa")
	_, err = shell.SetACL(f.Root+"/overrides", acl, -1)
	require.NoError(t, err)
	f.watch(f.named(keeper)).sees("INC-1")
	root, _, err := shell.GetACL(f.Root)
	require.NoError(t, err)
	_, err = shell.SetACL(f.Root, append(root, zk.ACL{Perms: zk.PermDelete, Scheme: "digest", ID: digest(worker).ID}), -1)
	require.NoError(t, err)
	f.doubted(f.named(keeper), f.Root, "digest:worker:d")
}

// doubted: the client acts on nothing that is posted, and says which entry of
// which list is to blame.
func (h *fixture) doubted(c *lock.Client, node, entry string) {
	h.Helper()
	told := h.watch(c).next()
	var untrusted *lock.UntrustedError
	require.ErrorAs(h, told.err, &untrusted)
	require.Equal(h, node, untrusted.Node)
	require.Equal(h, entry, untrusted.Entry)
	require.Empty(h, told.posted)
}

// What a contender could do to the audit trail, and whether that shows.
func TestWhatAContenderCanForgeInTheAuditTrail(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	c, shell := f.named(worker), f.shell(worker)
	for range 3 {
		_, err := f.audit(c).Append(f.Context(), entry("ana")) // under any name
		require.NoError(t, err)
	}
	record := func(n string) string { return f.Root + "/audit/log/000000000" + n }
	_, err := shell.Set(record("2"), []byte("{}"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "not even its own")
	report, err := f.audit(c).Verify(f.Context())
	require.NoError(t, err)
	require.Nil(t, report.Broken)

	require.NoError(t, shell.Delete(record("2"), -1))
	report, err = f.audit(f.named(rita)).Verify(f.Context())
	require.NoError(t, err)
	require.NotNil(t, report.Broken)
	require.Equal(t, opstore.AuditMissing, report.Broken.Fault)
}

// No client asks at emergency priority without an override in force.
func TestEmergencyPriorityTakesALiveOverride(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	l, err := f.named(worker).PriorityLock("cluster/orders")
	require.NoError(t, err)
	ask := func(m *lock.Mark) error {
		g, err := l.Acquire(f.Context(), lock.Request{Identity: priority.Identity{Owner: "ana"}, Terms: priority.Terms{Priority: priority.Emergency, Forceful: true, WaitingTimeout: new(time.Duration)}, Override: m})
		if err == nil {
			err = g.Release(f.Context())
		}
		return err
	}
	hold := func(id, scope string, until time.Time) override.Override {
		return override.Override{ID: id, Kind: override.Hold, Match: override.Match{Scope: scope}, Until: until.UTC().Truncate(time.Second), By: "ana", Reason: "disk full"}
	}
	board := f.named(ana).Overrides()
	_, err = board.ApplyAll(f.Context(), []override.Override{hold("INC-3", "cluster/other", inAnHour()), hold("INC-4", "cluster/orders", inAnHour())})
	require.NoError(t, err)
	for why, m := range map[string]*lock.Mark{
		"the request names none":                  nil,
		"there is none of that name on the board": {ID: "INC-9", By: "ana"},
		"it is one of the kind freeze":            {ID: "INC-1", By: "ana"},
		`"INC-3" is not: it is for cluster/other`: {ID: "INC-3", By: "ana"},
	} {
		err := ask(m)
		var refused *lock.EmergencyError
		require.ErrorAs(t, err, &refused, why)
		require.ErrorContains(t, err, why)
	}
	require.NoError(t, f.held.Granted().Check(), "no holder was preempted")
	state, err := f.daemon.Lock(f.Context(), "cluster/orders")
	require.NoError(t, err)
	require.Empty(t, state.Waiters)
	require.Empty(t, state.Holders[0].PreemptedBy)

	require.NoError(t, ask(&lock.Mark{ID: "INC-4", By: "ana", Reason: "disk full"}))
	require.Equal(t, lock.LossOverridden, f.held.Lost().Err.Reason)
	_, err = board.Clear(f.Context(), "INC-4")
	require.NoError(t, err)
	require.ErrorAs(t, ask(&lock.Mark{ID: "INC-4", By: "ana"}), new(*lock.EmergencyError), "it is over")
}

// One that is taken back while the request waits counts no more when the lock is
// to be taken.
func TestEmergencyRequestWhoseOverrideIsTakenBackGetsNothing(t *testing.T) {
	t.Parallel()
	f := newNamed(t)
	board := f.named(ana).Overrides()
	o := incident("INC-5", inAnHour())
	o.Kind = override.Hold
	_, err := board.Apply(f.Context(), o)
	require.NoError(t, err)
	request := f.Acquire(f.Lock(f.named(worker), "cluster/orders"), "ana", harness.At(priority.Emergency), func(r *lock.Request) {
		r.Override = &lock.Mark{ID: "INC-5", By: "ana"}
	})
	harness.Await[lock.PreemptSent](t, request.Notices)
	_, err = board.Clear(f.Context(), "INC-5")
	require.NoError(t, err)
	require.NoError(t, f.shell(worker).Delete(f.held.Node(), -1)) // the holder is gone: T3
	require.ErrorAs(t, request.Refused(), new(*lock.EmergencyError))
}
