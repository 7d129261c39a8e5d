package identity

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Worker is another daemon, or a machine that uses lockkeeper exec; Rita looks on.
var (
	worker = user{"worker", "w0rker"}
	rita   = user{"rita", "r1ta"}
)

// named connects somebody who has the three lists: Ana operates, Keeper and
// Worker contend, Rita reads.
func (h *house) named(u user) *recipes.Client {
	h.Helper()
	return h.connect(h.namedConfig(u))
}

func (h *house) namedConfig(u user) recipes.Config {
	return recipes.Config{
		Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 10 * time.Second, Auth: &recipes.Digest{User: u.name, Password: u.password},
		Operators: ids(ana), Contenders: ids(keeper, worker), Readers: ids(rita),
	}
}

func (h *house) connect(cfg recipes.Config) *recipes.Client {
	h.Helper()
	c, err := recipes.NewClient(cfg)
	require.NoError(h, err)
	h.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !errors.Is(err, recipes.ErrClosed) {
			h.Errorf("close the client: %v", err)
		}
	})
	return c
}

// newNamedHouse has something of everything in it, made by a contender where one may.
func newNamedHouse(t *testing.T) *fortress {
	t.Helper()
	f := &fortress{house: newHouse(t), told: make(chan *recipes.LostError, 1)}
	operator := f.named(ana)
	require.NoError(t, operator.MakeRoot(f.context()))
	_, err := operator.Overrides().Apply(f.context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	f.daemon = f.named(keeper)
	lock, err := f.daemon.PriorityLock("cluster/orders")
	require.NoError(t, err)
	f.grant, err = lock.Acquire(f.context(), recipes.Request{Owner: "batch", Notify: func(n recipes.Notice) {
		if lost, ok := n.(recipes.Lost); ok {
			f.told <- lost.Err
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.grant.Release(context.Background()) })
	f.question, err = f.daemon.Approvals().Open(f.context(), question())
	require.NoError(t, err)
	_, err = f.audit(f.daemon).Append(f.context(), entry("batch"))
	require.NoError(t, err)
	_, err = f.daemon.TickLedger("").Pause(f.context(), "nightly", recipes.TickPause{By: "ana"})
	require.NoError(t, err)
	return f
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

// Whatever is there, whoever has made it, and whoever tries what with it by the
// bare protocol: the table says whether that works.
func TestWhoMayDoWhatIsTheTable(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	nodes := f.tree(f.shell(ana), f.root)
	require.Greater(t, len(nodes), 15)
	for _, room := range []string{"locks", "ticks", "requests", "groups", "clock", "emergency", "overrides", "approvals", "audit", "audit/log", "seal", "identities"} {
		require.Contains(t, nodes, f.root+"/"+room)
	}
	kinds := map[string]struct {
		users  []user
		rights func(node string) string
	}{
		"operators":  {[]user{ana}, func(string) string { return "cdrwa" }},
		"contenders": {[]user{keeper, worker}, func(node string) string { return contendersMayOn(t, node) }},
		"readers":    {[]user{rita}, func(string) string { return "r" }},
		"strangers":  {[]user{nobody, eve, eveAsAna}, func(string) string { return "" }},
	}
	for kind, k := range kinds {
		for _, u := range k.users {
			shell := f.shell(u)
			for node, n := range nodes {
				rights := k.rights(strings.TrimPrefix(node, f.root))
				for _, try := range tries(shell, node, n) {
					err := try.do()
					what := kind + " " + u.name + ": " + try.what + " " + node
					switch {
					case !strings.Contains(rights, try.right):
						if n.stat.EphemeralOwner != 0 && errors.Is(err, zk.ErrNoChildrenForEphemerals) {
							continue
						}
						require.ErrorIs(t, err, zk.ErrNoAuth, what)
					case try.otherwise != nil:
						require.ErrorIs(t, err, try.otherwise, what)
					default:
						require.NoError(t, err, what)
					}
				}
			}
		}
	}
	require.Len(t, f.tree(f.shell(ana), f.root), len(nodes))
	require.NoError(t, f.named(keeper).CheckAccess(f.context()))
	require.NoError(t, f.named(ana).CheckAccess(f.context()))
	require.NoError(t, f.named(rita).CheckAccess(f.context()))
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
	f := newNamedHouse(t)
	for _, u := range []user{keeper, rita, nobody, eve} {
		shell := f.shell(u)
		for _, room := range []string{"overrides", "seal", "identities", "clock", "audit", "locks", "requests"} {
			at := f.root + "/" + room
			require.ErrorIs(t, shell.Delete(at, -1), zk.ErrNoAuth, "%s: %s", u.name, at)
			require.ErrorIs(t, multi(shell, &zk.DeleteRequest{Path: at, Version: -1}, &zk.CreateRequest{Path: at, Acl: zk.WorldACL(zk.PermAll)}), zk.ErrNoAuth, "%s: %s", u.name, at)
		}
		_, err := shell.Create(f.root+"/new", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth, u.name)
	}
}

// Several identities contend for one lock, and write each other's nodes.
func TestContendersPreemptEachOther(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	lock, err := f.named(worker).PriorityLock("cluster/orders")
	require.NoError(t, err)
	grant, err := lock.Acquire(f.context(), recipes.Request{Owner: "urgent", Priority: 5, Forceful: true, WaitingTimeout: new(time.Duration)})
	require.NoError(t, err)
	require.Equal(t, recipes.LossTaken, (<-f.told).Reason)
	back, err := f.daemon.PriorityLock("cluster/orders")
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		again, err := back.Acquire(f.context(), recipes.Request{Owner: "batch"})
		if err == nil {
			err = again.Release(f.context())
		}
		waits <- err
	}()
	eventually(t, func() bool {
		state, err := f.named(rita).Lock(f.context(), "cluster/orders")
		require.NoError(t, err)
		return len(state.Waiters) == 1
	}, "it waits")
	require.NoError(t, grant.Release(f.context()))
	require.NoError(t, <-waits, "handed over to another identity")
	_, err = f.audit(f.named(worker)).Append(f.context(), entry("urgent"))
	require.NoError(t, err)
	report, err := f.audit(f.named(worker)).Verify(f.context())
	require.NoError(t, err)
	require.Nil(t, report.Broken)
	require.Nil(t, report.Untrusted)
	require.EqualValues(t, 2, report.To)
}

func TestContendersAreNoOperators(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	token, err := f.grant.Token(f.context())
	require.NoError(t, err)
	c := f.named(worker)
	for what, do := range map[string]func() error{
		"apply": func() error { _, err := c.Overrides().Apply(f.context(), incident("INC-2", inAnHour())); return err },
		"clear": func() error { _, err := c.Overrides().Clear(f.context(), "INC-1"); return err },
		"decide": func() error {
			return c.Approvals().Decide(f.context(), f.question.ID(), recipes.Decision{Approved: true, By: "ana"})
		},
		"break": func() error {
			_, err := c.Break(f.context(), recipes.BreakRequest{Scope: "cluster/orders", Token: token, By: "ana", Reason: "because"})
			return err
		},
		"make the root": func() error { return c.MakeRoot(f.context()) },
	} {
		var refused *recipes.IdentityError
		require.ErrorAs(t, do(), &refused, what)
		require.Equal(t, []string{"digest:ana"}, refused.Operators)
	}
	// and believe what operators say, though they cannot see their hashes
	f.watch(c).sees("INC-1")
	f.watch(f.named(rita)).sees("INC-1")
	require.NoError(t, f.named(ana).Approvals().Decide(f.context(), f.question.ID(), recipes.Decision{Approved: true, By: "ana"}))
	d, err := f.question.Decision(f.context())
	require.NoError(t, err)
	require.True(t, d.Approved)
}

func TestReadersSeeAllAndAreToldWhichRightTheyLack(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	before := f.tree(f.shell(ana), f.root)
	c := f.named(rita)
	all, _, err := c.Locks(f.context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Held())
	lookout, err := c.Lookout(recipes.LookoutOptions{})
	require.NoError(t, err)
	var seen []recipes.LockState
	looking, enough := context.WithCancel(f.context())
	require.ErrorIs(t, lookout.Run(looking, func(s recipes.Sighting) {
		if s.Synced {
			enough()
			return
		}
		seen = append(seen, s.State)
	}), context.Canceled)
	require.Len(t, seen, 1)
	require.True(t, seen[0].Held())
	posted, err := c.Overrides().List(f.context())
	require.NoError(t, err)
	require.Len(t, posted, 1)
	questions, _, err := c.Approvals().List(f.context())
	require.NoError(t, err)
	require.Len(t, questions, 1)
	records, _, err := f.audit(c).Read(f.context(), recipes.AuditQuery{})
	require.NoError(t, err)
	require.Len(t, records, 1)
	report, err := f.audit(c).Verify(f.context())
	require.NoError(t, err)
	require.Nil(t, report.Untrusted)
	_, err = c.TickLedger("").State(f.context(), "nightly")
	require.NoError(t, err)
	survey, err := c.Survey(f.context(), recipes.SurveyOptions{})
	require.NoError(t, err)
	require.Empty(t, survey.Refused)
	require.Empty(t, survey.Strangers)

	for what, try := range map[string]struct {
		do    func() error
		right recipes.Permission
	}{
		"queue": {func() error { return acquire(f.context(), c) }, recipes.PermissionCreate},
		"another lock": {func() error {
			lock, err := c.PriorityLock("cluster/other")
			require.NoError(t, err)
			_, err = lock.Acquire(f.context(), recipes.Request{})
			return err
		}, recipes.PermissionCreate},
		"ask for a decision": {func() error { _, err := c.Approvals().Open(f.context(), question()); return err }, recipes.PermissionCreate},
		"append":             {func() error { _, err := f.audit(c).Append(f.context(), entry("rita")); return err }, recipes.PermissionWrite},
		"resume":             {func() error { _, err := c.TickLedger("").Resume(f.context(), "nightly"); return err }, recipes.PermissionWrite},
	} {
		err := try.do()
		var denied *recipes.AccessError
		require.ErrorAs(t, err, &denied, what)
		require.True(t, denied.Reader, what)
		require.Equal(t, try.right, denied.Right, "%s: %v", what, err)
		require.ErrorContains(t, err, `"rita"; it is one of zookeeper.readers, who may read alone`)
		require.ErrorContains(t, err, "missing is the right to ")
	}
	require.Equal(t, before, f.tree(f.shell(ana), f.root))
}

// Only an operator makes the root: who comes first could put anything there.
func TestContendersDoNotMakeTheRoot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	err := acquire(h.context(), h.named(keeper))
	var none *recipes.NoRootError
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, h.root+" does not exist, and only an operator may make it; let one run: lockkeeper init")
	_, err = h.audit(h.named(keeper)).Append(h.context(), entry("batch"))
	require.ErrorAs(t, err, &none)
	there, _, err := h.shell(nobody).Exists(h.root)
	require.NoError(t, err)
	require.False(t, there)

	// an operator's command makes it, whatever that is about
	_, err = h.named(ana).Overrides().Apply(h.context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	require.NoError(t, acquireAndRelease(h, h.named(keeper)))
	h.watch(h.named(keeper)).sees("INC-1")
}

func acquireAndRelease(h *house, c *recipes.Client) error {
	lock, err := c.PriorityLock("cluster/orders")
	if err != nil {
		return err
	}
	grant, err := lock.Acquire(h.context(), recipes.Request{})
	if err != nil {
		return err
	}
	return grant.Release(h.context())
}

// A stranger who was first, calls herself like an operator, and lets everybody
// in, is told from the operator by the seal: she does not know Ana's hash.
func TestContendersTellAnOperatorFromAStrangerOfThatName(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	everybody := zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}
	h.squat(eveAsAna, h.root, nil, digest(eveAsAna), everybody)
	h.squat(eveAsAna, h.root+"/overrides", forged("INC-9"), digest(eveAsAna), everybody)
	seals := map[string][]byte{"none": nil, "of another": []byte(`{"format":1,"operators":["AAAA"]}`), "unreadable": []byte("{")}
	for name, seal := range seals {
		if seal != nil {
			h.squat(eveAsAna, h.root+"/seal", seal, digest(eveAsAna), everybody)
		}
		for _, u := range []user{keeper, rita} {
			told := h.watch(h.named(u)).next()
			var untrusted *recipes.UntrustedError
			require.ErrorAs(t, told.err, &untrusted, name)
			require.Equal(t, "digest:ana:cdrwa", untrusted.Entry)
			require.ErrorContains(t, told.err, "/seal does not say that it is one of zookeeper.operators")
		}
		if seal != nil {
			require.NoError(t, h.shell(eveAsAna).Delete(h.root+"/seal", -1))
		}
	}
	_, err := h.named(ana).Overrides().List(h.context()) // who sees no more either
	require.ErrorAs(t, err, new(*recipes.UntrustedError))
	require.ErrorAs(t, h.named(ana).MakeRoot(h.context()), new(*recipes.AccessError))
}

// What a board of contenders says is not believed, wherever it comes from.
func TestBoardThatAContenderCouldWriteIsNotTrusted(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	shell := f.shell(ana)
	acl, _, err := shell.GetACL(f.root + "/overrides")
	require.NoError(t, err)
	_, err = shell.SetACL(f.root+"/overrides", append(acl, digest(worker)), -1)
	require.NoError(t, err)
	f.doubted(f.named(keeper), f.root+"/overrides", "digest:worker:cdrwa")
	_, err = shell.SetACL(f.root+"/overrides", acl, -1)
	require.NoError(t, err)
	f.watch(f.named(keeper)).sees("INC-1")
	root, _, err := shell.GetACL(f.root)
	require.NoError(t, err)
	_, err = shell.SetACL(f.root, append(root, zk.ACL{Perms: zk.PermDelete, Scheme: "digest", ID: digest(worker).ID}), -1)
	require.NoError(t, err)
	f.doubted(f.named(keeper), f.root, "digest:worker:d")
}

// doubted: the client acts on nothing that is posted, and says which entry of
// which list is to blame.
func (h *house) doubted(c *recipes.Client, node, entry string) {
	h.Helper()
	told := h.watch(c).next()
	var untrusted *recipes.UntrustedError
	require.ErrorAs(h, told.err, &untrusted)
	require.Equal(h, node, untrusted.Node)
	require.Equal(h, entry, untrusted.Entry)
	require.Empty(h, told.posted)
}

// What a contender could do to the audit trail, and whether that shows.
func TestWhatAContenderCanForgeInTheAuditTrail(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	c, shell := f.named(worker), f.shell(worker)
	for range 3 {
		_, err := f.audit(c).Append(f.context(), entry("ana")) // under any name
		require.NoError(t, err)
	}
	record := func(n string) string { return f.root + "/audit/log/000000000" + n }
	_, err := shell.Set(record("2"), []byte("{}"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "not even its own")
	report, err := f.audit(c).Verify(f.context())
	require.NoError(t, err)
	require.Nil(t, report.Broken)

	require.NoError(t, shell.Delete(record("2"), -1))
	report, err = f.audit(f.named(rita)).Verify(f.context())
	require.NoError(t, err)
	require.NotNil(t, report.Broken)
	require.Equal(t, recipes.AuditMissing, report.Broken.Fault)
}

// Nobody's client asks at emergency priority without an override in force.
func TestEmergencyPriorityTakesALiveOverride(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	lock, err := f.named(worker).PriorityLock("cluster/orders")
	require.NoError(t, err)
	ask := func(m *recipes.Mark) error {
		g, err := lock.Acquire(f.context(), recipes.Request{Owner: "ana", Priority: priority.Emergency, Override: m, Forceful: true, WaitingTimeout: new(time.Duration)})
		if err == nil {
			err = g.Release(f.context())
		}
		return err
	}
	hold := func(id, scope string, until time.Time) override.Override {
		return override.Override{ID: id, Kind: override.Hold, Match: override.Match{Scope: scope}, Until: until.UTC().Truncate(time.Second), By: "ana", Reason: "disk full"}
	}
	board := f.named(ana).Overrides()
	_, err = board.ApplyAll(f.context(), []override.Override{hold("INC-3", "cluster/other", inAnHour()), hold("INC-4", "cluster/orders", inAnHour())})
	require.NoError(t, err)
	for why, m := range map[string]*recipes.Mark{
		"the request names none":                  nil,
		"there is none of that name on the board": {ID: "INC-9", By: "ana"},
		"it is one of the kind freeze":            {ID: "INC-1", By: "ana"},
		`"INC-3" is not: it is for cluster/other`: {ID: "INC-3", By: "ana"},
	} {
		err := ask(m)
		var refused *recipes.EmergencyError
		require.ErrorAs(t, err, &refused, why)
		require.ErrorContains(t, err, why)
	}
	require.NoError(t, f.grant.Check(), "nobody was asked to go")
	state, err := f.daemon.Lock(f.context(), "cluster/orders")
	require.NoError(t, err)
	require.Empty(t, state.Waiters)
	require.Empty(t, state.Holders[0].PreemptedBy)

	require.NoError(t, ask(&recipes.Mark{ID: "INC-4", By: "ana", Reason: "disk full"}))
	require.Equal(t, recipes.LossOverridden, (<-f.told).Reason)
	_, err = board.Clear(f.context(), "INC-4")
	require.NoError(t, err)
	require.ErrorAs(t, ask(&recipes.Mark{ID: "INC-4", By: "ana"}), new(*recipes.EmergencyError), "it is over")
}

// One that is taken back while the request waits counts no more when the lock is
// to be taken.
func TestEmergencyRequestWhoseOverrideIsTakenBackGetsNothing(t *testing.T) {
	t.Parallel()
	f := newNamedHouse(t)
	board := f.named(ana).Overrides()
	o := incident("INC-5", inAnHour())
	o.Kind = override.Hold
	_, err := board.Apply(f.context(), o)
	require.NoError(t, err)
	lock, err := f.named(worker).PriorityLock("cluster/orders")
	require.NoError(t, err)
	asked := make(chan struct{})
	waits := make(chan error, 1)
	go func() {
		_, err := lock.Acquire(f.context(), recipes.Request{
			Owner: "ana", Priority: priority.Emergency, Override: &recipes.Mark{ID: "INC-5", By: "ana"},
			Notify: func(n recipes.Notice) {
				if _, ok := n.(recipes.PreemptSent); ok {
					close(asked)
				}
			},
		})
		waits <- err
	}()
	select {
	case <-asked:
	case <-time.After(soon):
		t.Fatal("nobody was asked")
	}
	_, err = board.Clear(f.context(), "INC-5")
	require.NoError(t, err)
	require.NoError(t, f.shell(worker).Delete(f.lockNode(f.grant.ID()), -1)) // the holder is gone: T3
	require.ErrorAs(t, <-waits, new(*recipes.EmergencyError))
}

// lockNode is the node of a request for cluster/orders.
func (f *fortress) lockNode(guid string) string {
	f.Helper()
	for at := range f.tree(f.shell(ana), f.root+"/locks") {
		if strings.Contains(at, guid) {
			return at
		}
	}
	require.Fail(f, "no node", guid)
	return ""
}
