package identity

import (
	"context"
	"errors"
	"maps"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// strangers are those who have no business here.
var strangers = map[string]user{"without credentials": nobody, "of another user": eve, "with a wrong password": eveAsAna}

// A fortress is a root with something of everything in it.
type fortress struct {
	*house
	daemon   *recipes.Client
	grant    *recipes.Grant
	told     chan *recipes.LostError
	question *recipes.OpenApproval
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	f := &fortress{house: newHouse(t), told: make(chan *recipes.LostError, 1)}
	f.daemon = f.client(keeper, keeper, ana)
	lock, err := f.daemon.PriorityLock("cluster/orders")
	require.NoError(t, err)
	f.grant, err = lock.Acquire(f.context(), recipes.Request{Owner: "batch", Message: "a secret", Notify: func(n recipes.Notice) {
		if lost, ok := n.(recipes.Lost); ok {
			f.told <- lost.Err
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.grant.Release(context.Background()) })
	_, err = f.daemon.Overrides().Apply(f.context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	f.question, err = f.daemon.Approvals().Open(f.context(), question())
	require.NoError(t, err)
	_, err = f.audit(f.daemon).Append(f.context(), entry("batch"))
	require.NoError(t, err)
	_, err = f.daemon.TickLedger("").Pause(f.context(), "nightly", recipes.TickPause{By: "ana"})
	require.NoError(t, err)
	return f
}

func (h *house) audit(c *recipes.Client) *recipes.AuditLog {
	h.Helper()
	log, err := c.AuditLog(0)
	require.NoError(h, err)
	return log
}

func entry(by string) recipes.AuditEntry {
	return recipes.AuditEntry{Action: recipes.AuditBreak, Phase: recipes.AuditIntent, By: by, Scope: "cluster/orders"}
}

// A node is what there is of it.
type node struct {
	data string
	stat zk.Stat
	acl  []zk.ACL
}

// tree reads all that is below the root, as somebody who may.
func (h *house) tree(shell *zk.Conn, at string) map[string]node {
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
			before := f.tree(f.shell(keeper), f.root)
			for _, operators := range [][]user{nil, {keeper, ana}, {u}} {
				if len(operators) == 1 && u == nobody {
					continue
				}
				c := f.client(u, operators...)
				r := f.watch(c)
				grant, err := f.grant.Token(f.context())
				require.NoError(t, err)
				for what, try := range map[string]func() error{
					"apply an override": func() error {
						_, err := c.Overrides().Apply(f.context(), incident("INC-2", inAnHour()))
						return err
					},
					"clear an override":  func() error { _, err := c.Overrides().Clear(f.context(), "INC-1"); return err },
					"read the overrides": func() error { _, err := c.Overrides().List(f.context()); return err },
					"hear of overrides":  func() error { return r.next().err },
					"ask for a decision": func() error { _, err := c.Approvals().Open(f.context(), question()); return err },
					"read the questions": func() error { _, _, err := c.Approvals().List(f.context()); return err },
					"decide": func() error {
						return c.Approvals().Decide(f.context(), f.question.ID(), recipes.Decision{Approved: true, By: "ana"})
					},
					"break the lock": func() error {
						_, err := c.Break(f.context(), recipes.BreakRequest{Scope: "cluster/orders", Token: grant, By: "ana", Reason: "because"})
						return err
					},
					"read the lock":    func() error { _, err := c.Lock(f.context(), "cluster/orders"); return err },
					"read all locks":   func() error { _, _, err := c.Locks(f.context()); return err },
					"queue":            func() error { return acquire(f.context(), c) },
					"forge a record":   func() error { _, err := f.audit(c).Append(f.context(), entry("ana")); return err },
					"read the records": func() error { _, _, err := f.audit(c).Read(f.context(), recipes.AuditQuery{}); return err },
					"resume a job":     func() error { _, err := c.TickLedger("").Resume(f.context(), "nightly"); return err },
					"look at a job":    func() error { _, err := c.TickLedger("").State(f.context(), "nightly"); return err },
				} {
					err := try()
					var access *recipes.AccessError
					var identity *recipes.IdentityError
					if !errors.As(err, &access) && !errors.As(err, &identity) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			require.Equal(t, before, f.tree(f.shell(keeper), f.root))
			require.NoError(t, f.grant.Check())
			require.Empty(t, f.told)
		})
	}
}

func acquire(ctx context.Context, c *recipes.Client) error {
	lock, err := c.PriorityLock("cluster/orders")
	if err == nil {
		_, err = lock.Acquire(ctx, recipes.Request{Priority: 100, Forceful: true, WaitingTimeout: new(time.Duration)})
	}
	return err
}

func TestStrangersCanDoNothingByBareProtocol(t *testing.T) {
	t.Parallel()
	for name, u := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFortress(t)
			keeperShell, shell := f.shell(keeper), f.shell(u)
			before := f.tree(keeperShell, f.root)
			require.Greater(t, len(before), 10)
			open := zk.WorldACL(zk.PermAll)
			for p, n := range before {
				tries := map[string]func() error{
					"read":           func() error { _, _, err := shell.Get(p); return err },
					"list":           func() error { _, _, err := shell.Children(p); return err },
					"read the ACL":   func() error { _, _, err := shell.GetACL(p); return err },
					"write":          func() error { _, err := shell.Set(p, []byte("forged"), -1); return err },
					"change the ACL": func() error { _, err := shell.SetACL(p, open, -1); return err },
					"delete":         func() error { return shell.Delete(p, -1) },
					"delete and make": func() error {
						return multi(shell, &zk.DeleteRequest{Path: p, Version: -1}, &zk.CreateRequest{Path: p, Acl: open})
					},
					"make below":       func() error { _, err := shell.Create(p+"/forged", nil, 0, open); return err },
					"make in sequence": func() error { _, err := shell.Create(p+"/forged-", nil, zk.FlagSequence, open); return err },
					"watch":            func() error { _, _, _, err := shell.GetW(p); return err },
					"write in a multi": func() error { return multi(shell, &zk.SetDataRequest{Path: p, Data: []byte("forged"), Version: -1}) },
				}
				for what, try := range tries {
					err := try()
					switch {
					case errors.Is(err, zk.ErrNoAuth):
					case p == f.root && errors.Is(err, zk.ErrNotEmpty): // "/" belongs to everybody, and the root has children
					case n.stat.EphemeralOwner != 0 && errors.Is(err, zk.ErrNoChildrenForEphemerals):
					default:
						t.Errorf("%s %s: %v", what, p, err)
					}
				}
			}
			require.Equal(t, before, f.tree(keeperShell, f.root))
			require.NoError(t, f.grant.Check())
			report, err := f.audit(f.daemon).Verify(f.context())
			require.NoError(t, err)
			require.Nil(t, report.Broken)
			require.Nil(t, report.Untrusted)
			require.NoError(t, f.daemon.CheckAccess(f.context()))
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
	_, err := c.Overrides().Clear(f.context(), "INC-1")
	require.NoError(t, err)
	_, err = c.Overrides().Apply(f.context(), incident("INC-2", inAnHour()))
	require.NoError(t, err)
	require.NoError(t, c.Approvals().Decide(f.context(), f.question.ID(), recipes.Decision{Approved: true, By: "ana"}))
	_, err = f.question.Decision(f.context())
	require.NoError(t, err)
	_, err = f.audit(c).Append(f.context(), entry("ana"))
	require.NoError(t, err)
	token, err := f.grant.Token(f.context())
	require.NoError(t, err)
	_, err = c.Break(f.context(), recipes.BreakRequest{Scope: "cluster/orders", Token: token, By: "ana", Reason: "because"})
	require.NoError(t, err)
	require.Equal(t, recipes.LossBroken, (<-f.told).Reason)
	require.NoError(t, c.CheckAccess(f.context()))
}

// One who knows that an operator exists is not one.
func TestOperatorsArePeopleNotNames(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	_, err := f.client(eveAsAna, keeper, ana).Overrides().Apply(f.context(), incident("INC-2", inAnHour()))
	require.ErrorAs(t, err, new(*recipes.IdentityError))
	_, err = f.client(eveAsAna).Overrides().Apply(f.context(), incident("INC-2", inAnHour()))
	var access *recipes.AccessError
	require.ErrorAs(t, err, &access)
	require.ErrorContains(t, err, `does not allow it to the digest user "ana"; check the user and the password`)
}
