package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestBrokenInWords(t *testing.T) {
	next := hotfix(func(c *lock.Contender) { c.Token, c.Position = 7301512, 0 })
	before := orders(one(reindex()), hotfix(), rollup())
	broken := func(after lock.State, change func(*brokenView)) brokenView {
		v := brokenView{
			Scope: "db/orders", Broken: true, Victim: live.NewHolder(reindex()), By: "ana", Reason: "its host is gone, it cannot be reached (INC-4411)",
			Act: "2136f41f79c0b26374f38691", Now: live.NewLock(after), before: before, after: after,
		}
		if change != nil {
			change(&v)
		}
		return v
	}
	dry := func(v *brokenView) { v.Broken, v.Act = false, "" }
	alone, together := orders(one(reindex())), orders([]lock.Contender{reindex(reader), rollupHolding()})
	for name, v := range map[string]brokenView{
		"next":          broken(orders(one(next), rollup(first)), nil),
		"free":          broken(orders(nil), nil),
		"about_to_get":  broken(orders(nil, hotfix()), nil),
		"dry_run":       broken(before, dry),
		"dry_run_alone": broken(alone, func(v *brokenView) { dry(v); v.before = alone }),
		"dry_run_shared": broken(together, func(v *brokenView) {
			dry(v)
			v.before, v.Victim = together, live.NewHolder(together.Holders[0])
		}),
	} {
		t.Run(name, func(t *testing.T) {
			goldenPages(t, "break/"+name, v, func(pg page) { writeBroken(pg, v) })
		})
	}
}

func TestPreemptedInWords(t *testing.T) {
	next := hotfix(func(c *lock.Contender) { c.Token, c.Position = 7301512, 0 })
	after := func(s lock.State) func(*preemptedView) {
		return func(v *preemptedView) { v.after, v.Now = s, live.NewLock(s) }
	}
	preempted := func(outcome string, f preemptFlags, changes ...func(*preemptedView)) preemptedView {
		before := orders(one(reindex()), rollup(first))
		v := preemptedView{
			Scope: "db/orders", Outcome: outcome, Force: f.force.is, Victims: []live.Holder{live.NewHolder(reindex())}, Took: 12_400,
			By: "ana", Reason: "the hotfix of INC-4411 has to run", Mark: "preempt-k3v9qd", Act: "2136f41f79c0b26374f38691",
			before: before, after: before, Now: live.NewLock(before), waiting: f.waiting.or(emergency.Politeness),
		}
		for _, change := range changes {
			change(&v)
		}
		asked := emergency.Preemption{Scope: v.Scope, By: emergency.By{Name: v.By, Reason: v.Reason}, Force: f.force.is, Grace: f.grace.limit(), Waiting: f.waiting.or(emergency.Politeness)}
		v.plan = inspect.PlanFor(v.before, asked.Request(v.before, &lock.Mark{ID: v.Mark, By: v.By, Reason: v.Reason}))
		return v
	}
	polite, force := preemptFlags{}, preemptFlags{force: yes{is: true}}
	short := preemptFlags{force: yes{is: true}, grace: duration{d: 5 * time.Second, given: true}}
	notAtAll := preemptFlags{force: yes{is: true}, grace: duration{given: true}}
	noAct := func(v *preemptedView) { v.Act, v.Took = "", 0 }
	highest := func(v *preemptedView) {
		v.before = orders(one(reindex(func(c *lock.Contender) { c.Priority = priority.Emergency })))
		v.after = v.before
	}
	for name, v := range map[string]preemptedView{
		"gone":            preempted(emergency.PreemptedGone, polite, after(orders(one(next), rollup(first)))),
		"taken":           preempted(emergency.PreemptedTaken, force, after(orders(one(next), rollup(first)))),
		"pending":         preempted(emergency.PreemptedPending, polite),
		"free":            preempted(emergency.PreemptedFree, polite, noAct, func(v *preemptedView) { v.Victims = []live.Holder{}; v.before = orders(nil); after(v.before)(v) }),
		"dry_run":         preempted(preemptedDryRun, polite, noAct),
		"dry_run_force":   preempted(preemptedDryRun, short, noAct),
		"dry_run_at_once": preempted(preemptedDryRun, notAtAll, noAct),
		"dry_run_highest": preempted(preemptedDryRun, force, noAct, highest),
	} {
		t.Run(name, func(t *testing.T) {
			goldenPages(t, "preempt/"+name, v, func(pg page) { writePreempted(pg, v) })
		})
	}
}

// A fortress is a ZooKeeper where ana is an operator, and whose lock db/orders a
// batch holds while another one waits.
type fortress struct {
	zk     *zktest.Server
	client *lock.Client
	file   string // with the credentials of ana
	token  lock.Token
}

func newFortress(t *testing.T, cleanup time.Duration) *fortress {
	f := &fortress{zk: zktest.RunT(t), file: filepath.Join(t.TempDir(), "ana")}
	require.NoError(t, os.WriteFile(f.file, []byte("ana:secret"), 0o600))
	f.client = connect(t, f.zk, ana)
	grant := acquire(t, f.client, "db/orders", lock.Request{
		Identity: priority.Identity{Owner: "batch"}, Terms: priority.Terms{Priority: priority.Emergency - 1, MinRuntime: time.Minute, CleanupTimeout: cleanup},
	})
	var err error
	f.token, err = grant.Token(t.Context())
	require.NoError(t, err)
	enqueue(t, f.client, "db/orders", lock.Request{Identity: priority.Identity{Owner: "next"}})
	return f
}

// lockkeeper runs the program as ana.
func (f *fortress) lockkeeper(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Chdir(t.TempDir()) // where no configuration is
	return runProgram(append(args, "--zk", f.zk.Addr(), "--zk-digest-file", f.file)...)
}

// shows runs the program, which has to succeed, and returns what it writes.
func (f *fortress) shows(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := f.lockkeeper(t, args...)
	require.Zero(t, code, errs)
	return out
}

func (f *fortress) records(t *testing.T) []opstore.AuditRecord {
	log, err := f.client.AuditLog(0)
	require.NoError(t, err)
	all, _, err := log.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	return all
}
