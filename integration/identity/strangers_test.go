package identity

import (
	"errors"
	"maps"
	"path"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// strangers are those who have no business here.
var strangers = map[string]user{"without credentials": anonymous, "of another user": eve, "with a wrong password": eveAsAna}

// A fortress is a root with something of everything in it.
type fortress struct {
	*fixture
	daemon   *lock.Client
	held     *harness.Request
	question *opstore.OpenApproval
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	h := newFixture(t)
	daemon := h.client(keeper, keeper, ana)
	return h.furnish(daemon, daemon)
}

// furnish makes something of everything, by the daemon where it may.
func (h *fixture) furnish(daemon, operator *lock.Client) *fortress {
	h.Helper()
	_, err := operator.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(h, err)
	f := &fortress{fixture: h, daemon: daemon}
	f.held = f.Hold(f.Lock(daemon, "cluster/orders"), "batch", func(r *lock.Request) { r.Message = "a secret" })
	f.question, err = daemon.Approvals().Open(f.Context(), question())
	require.NoError(f, err)
	_, err = f.audit(daemon).Append(f.Context(), entry("batch"))
	require.NoError(f, err)
	_, err = daemon.TickLedger("").Pause(f.Context(), "nightly", ticks.Pause{By: "ana"})
	require.NoError(f, err)
	return f
}

// deeds are what somebody with a client can try.
func (f *fortress) deeds(c *lock.Client) map[string]func() error {
	r, token := f.watch(c), f.held.Token()
	return map[string]func() error{
		"apply an override": func() error { _, err := c.Overrides().Apply(f.Context(), incident("INC-2", inAnHour())); return err },
		"clear an override": func() error { _, err := c.Overrides().Clear(f.Context(), "INC-1"); return err },
		"decide": func() error {
			return c.Approvals().Decide(f.Context(), f.question.ID(), opstore.Decision{Approved: true, By: "ana"})
		},
		"break the lock": func() error {
			_, err := c.Break(f.Context(), lock.BreakRequest{Scope: "cluster/orders", Token: token, By: "ana", Reason: "because"})
			return err
		},
		"queue": func() error { return works(f.Context(), c) },
		"take another lock": func() error {
			l, err := c.PriorityLock("cluster/other")
			if err == nil {
				_, err = l.Acquire(f.Context(), lock.Request{})
			}
			return err
		},
		"ask for a decision": func() error { _, err := c.Approvals().Open(f.Context(), question()); return err },
		"append a record":    func() error { _, err := f.audit(c).Append(f.Context(), entry("ana")); return err },
		"resume a job":       func() error { _, err := c.TickLedger("").Resume(f.Context(), "nightly"); return err },
		"read the overrides": func() error { _, err := c.Overrides().List(f.Context()); return err },
		"hear of overrides":  func() error { return r.next().err },
		"read the questions": func() error { _, _, err := c.Approvals().List(f.Context()); return err },
		"read the lock":      func() error { _, err := c.Lock(f.Context(), "cluster/orders"); return err },
		"read all locks":     func() error { _, _, err := c.Locks(f.Context()); return err },
		"read the records":   func() error { _, _, err := f.audit(c).Read(f.Context(), opstore.AuditQuery{}); return err },
		"read of a job":      func() error { _, err := c.TickLedger("").State(f.Context(), "nightly"); return err },
	}
}

func (h *fixture) audit(c *lock.Client) *opstore.AuditLog {
	h.Helper()
	log, err := c.AuditLog(0)
	require.NoError(h, err)
	return log
}

func entry(by string) opstore.AuditEntry {
	return opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditIntent, By: by, Scope: "cluster/orders"}
}

// A node is what there is of it.
type node struct {
	data string
	stat zk.Stat
	acl  []zk.ACL
}

// tree reads all that is below the root, as somebody who may.
func (h *fixture) tree(shell *zk.Conn, at string) map[string]node {
	h.Helper()
	all := map[string]node{}
	data, stat, err := shell.Get(at)
	require.NoError(h, err)
	acl, _, err := shell.GetACL(at)
	require.NoError(h, err)
	all[at] = node{string(data), *stat, acl}
	names, _, err := shell.Children(at)
	require.NoError(h, err)
	for _, name := range names {
		maps.Copy(all, h.tree(shell, path.Join(at, name)))
	}
	return all
}

func TestStrangersCanDoNothingWithAClient(t *testing.T) {
	t.Parallel()
	for name, u := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFortress(t)
			before := f.tree(f.shell(keeper), f.Root)
			for _, operators := range [][]user{nil, {keeper, ana}, {u}} {
				if len(operators) == 1 && u == anonymous {
					continue
				}
				for what, try := range f.deeds(f.client(u, operators...)) {
					err := try()
					var access *lock.AccessError
					var identity *lock.IdentityError
					if !errors.As(err, &access) && !errors.As(err, &identity) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			require.Equal(t, before, f.tree(f.shell(keeper), f.Root))
			require.NoError(t, f.held.Granted().Check())
		})
	}
}

func TestStrangersCanDoNothingByBareProtocol(t *testing.T) {
	t.Parallel()
	for name, u := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFortress(t)
			keeperShell, shell := f.shell(keeper), f.shell(u)
			before := f.tree(keeperShell, f.Root)
			require.Greater(t, len(before), 10)
			f.mayDo(u, before, func(string) string { return "" })
			for p := range before {
				for _, err := range []error{
					shell.Delete(p, -1), multi(shell, &zk.DeleteRequest{Path: p, Version: -1}, &zk.CreateRequest{Path: p, Acl: harness.WorldACL}),
				} {
					if p != f.Root || !errors.Is(err, zk.ErrNotEmpty) { // "/" belongs to everybody, and the root has children
						require.ErrorIs(t, err, zk.ErrNoAuth, p)
					}
				}
			}
			require.Equal(t, before, f.tree(keeperShell, f.Root))
			require.NoError(t, f.held.Granted().Check())
			report, err := f.audit(f.daemon).Verify(f.Context())
			require.NoError(t, err)
			require.Nil(t, report.Broken)
			require.Nil(t, report.Untrusted)
			require.NoError(t, f.daemon.CheckAccess(f.Context()))
		})
	}
}

func multi(shell *zk.Conn, ops ...any) error {
	_, err := shell.Multi(ops...)
	return err
}

// Operators can do all of it.
func TestOperatorsCan(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	c := f.client(ana, keeper, ana)
	_, err := c.Overrides().Clear(f.Context(), "INC-1")
	require.NoError(t, err)
	_, err = c.Overrides().Apply(f.Context(), incident("INC-2", inAnHour()))
	require.NoError(t, err)
	require.NoError(t, c.Approvals().Decide(f.Context(), f.question.ID(), opstore.Decision{Approved: true, By: "ana"}))
	_, err = f.question.Decision(f.Context())
	require.NoError(t, err)
	_, err = f.audit(c).Append(f.Context(), entry("ana"))
	require.NoError(t, err)
	token := f.held.Token()
	_, err = c.Break(f.Context(), lock.BreakRequest{Scope: "cluster/orders", Token: token, By: "ana", Reason: "because"})
	require.NoError(t, err)
	require.Equal(t, lock.LossBroken, f.held.Lost().Err.Reason)
	require.NoError(t, c.CheckAccess(f.Context()))
}

// One who knows that an operator exists is not one.
func TestOperatorsArePeopleNotNames(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	_, err := f.client(eveAsAna, keeper, ana).Overrides().Apply(f.Context(), incident("INC-2", inAnHour()))
	require.ErrorAs(t, err, new(*lock.IdentityError))
	_, err = f.client(eveAsAna).Overrides().Apply(f.Context(), incident("INC-2", inAnHour()))
	var access *lock.AccessError
	require.ErrorAs(t, err, &access)
	require.ErrorContains(t, err, `does not allow it to the digest user "ana"; check the user and the password`)
}
