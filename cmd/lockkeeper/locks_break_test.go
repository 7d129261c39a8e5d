package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
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
	zk      *zktest.Server
	client  *lock.Client
	file    string // with the credentials of ana
	token   lock.Token
	notices chan lock.Notice // of the holder
	grant   *lock.Grant
	next    <-chan *lock.Grant
}

func newFortress(t *testing.T, cleanup time.Duration) *fortress {
	f := &fortress{zk: zktest.RunT(t), file: filepath.Join(t.TempDir(), "ana"), notices: make(chan lock.Notice, 100)}
	require.NoError(t, os.WriteFile(f.file, []byte("ana:secret"), 0o600))
	f.client = connect(t, f.zk, ana)
	f.grant = acquire(t, f.client, "db/orders", lock.Request{
		Identity: priority.Identity{Owner: "batch"}, Terms: priority.Terms{Priority: priority.Emergency - 1, MinRuntime: time.Minute, CleanupTimeout: cleanup},
		Notify: func(n lock.Notice) { f.notices <- n },
	})
	var err error
	f.token, err = f.grant.Token(t.Context())
	require.NoError(t, err)
	f.next = enqueue(t, f.client, "db/orders", lock.Request{Identity: priority.Identity{Owner: "next"}})
	return f
}

// lockkeeper runs the program as ana.
func (f *fortress) lockkeeper(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Chdir(t.TempDir()) // where no configuration is
	return runProgram(append(args, "--zk", f.zk.Addr(), "--zk-digest-file", f.file)...)
}

func (f *fortress) records(t *testing.T) []opstore.AuditRecord {
	log, err := f.client.AuditLog(0)
	require.NoError(t, err)
	all, _, err := log.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	return all
}

// told waits for a notice to the holder.
func told[N lock.Notice](t *testing.T, f *fortress) N {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case n := <-f.notices:
			if found, ok := n.(N); ok {
				return found
			}
		case <-late:
			require.Fail(t, "the holder is not told")
		}
	}
}

func TestBrokenLockIsOnRecordAndGoesToTheNext(t *testing.T) {
	f := newFortress(t, time.Minute)

	// when
	code, out, errs := f.lockkeeper(t, "locks", "break", "db/orders", "--token", f.token.String(), "--reason", "gone")

	// then
	require.Zero(t, code, errs)
	require.Contains(t, out, "now       held by next (priority 0, ")
	lost := told[lock.Lost](t, f).Err
	require.Equal(t, lock.LossBroken, lost.Reason)
	require.Equal(t, "ana", lost.By)
	require.Equal(t, "gone", lost.Why)
	<-f.next
	records := f.records(t)
	require.Len(t, records, 2)
	intent, outcome := records[0], records[1]
	require.Equal(t, opstore.AuditIntent, intent.Phase)
	require.Equal(t, opstore.AuditOutcome, outcome.Phase)
	require.Equal(t, opstore.AuditDone, outcome.Result)
	require.Equal(t, map[string]string{"holders": "next"}, outcome.After)
	for _, r := range records {
		require.Equal(t, opstore.AuditBreak, r.Action)
		require.Equal(t, intent.Act, r.Act)
		require.Equal(t, "digest:ana", r.Identity)
		require.Equal(t, "ana", r.By)
		require.Equal(t, "gone", r.Reason)
		require.Len(t, r.Victims, 1)
		require.Equal(t, "batch", r.Victims[0].Owner)
		require.Equal(t, f.token, r.Victims[0].Token)
	}
	require.Contains(t, out, "on record as "+intent.Act)
}

func TestNothingIsBrokenThatIsNotOnRecord(t *testing.T) {
	f := newFortress(t, time.Minute)
	log, err := f.client.AuditLog(0)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditOutcome, By: "ana"})
	require.NoError(t, err)
	require.NoError(t, f.zk.Set("/lockkeeper/audit", []byte("nonsense")))
	for _, command := range [][]string{{"break"}, {"preempt"}, {"preempt", "--force"}} {
		args := append([]string{"locks", command[0], "db/orders", "--token", f.token.String(), "--reason", "gone"}, command[1:]...)
		code, out, errs := f.lockkeeper(t, args...)
		require.NotZero(t, code)
		require.Empty(t, out)
		require.Contains(t, errs, "audit trail")
	}
	require.NoError(t, f.grant.Check())
	require.Empty(t, f.notices)
}

func TestStaleTokensAndDryRunsChangeNothing(t *testing.T) {
	f := newFortress(t, time.Minute)
	token, stale := f.token.String(), strconv.FormatInt(int64(f.token)-1, 10)
	for _, c := range []struct {
		code int
		args []string
	}{
		{78, []string{"break", "db/orders", "--token", stale, "--reason", "gone"}},
		{78, []string{"preempt", "db/orders", "--token", stale, "--reason", "gone", "--force"}},
		{78, []string{"break", "db/other", "--token", token, "--reason", "gone"}},
		{0, []string{"break", "db/orders", "--token", token, "--reason", "gone", "--dry-run"}},
		{0, []string{"preempt", "db/orders", "--token", token, "--reason", "gone", "--force", "--dry-run"}},
		{0, []string{"preempt", "db/other", "--reason", "gone", "--force"}},
	} {
		code, _, errs := f.lockkeeper(t, append([]string{"locks"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errs)
	}
	require.NoError(t, f.grant.Check())
	require.Empty(t, f.notices)
	require.Empty(t, f.records(t))
}

func TestPreemptedByForceWhateverWasAgreedOn(t *testing.T) {
	f := newFortress(t, time.Minute)

	// when
	code, out, errs := f.lockkeeper(t, "locks", "preempt", "db/orders", "--reason", "hotfix", "--force", "--grace", "100ms", "--by", "ana (on call)")

	// then
	require.Zero(t, code, errs)
	require.Contains(t, out, "the lock was taken from batch by force")
	asked := told[lock.PreemptRequested](t, f)
	require.Equal(t, 100*time.Millisecond, asked.Grace)
	require.Equal(t, "ana (on call)", asked.Override.By)
	require.Equal(t, lock.LossOverridden, told[lock.Lost](t, f).Err.Reason)
	<-f.next
	var acts []string
	for _, r := range f.records(t) {
		acts = append(acts, string(r.Action)+" "+string(r.Phase)+" "+r.Result)
		require.Equal(t, asked.Override.ID, r.Override)
		require.Equal(t, "batch", r.Victims[0].Owner)
	}
	require.Equal(t, []string{"preempt intent ", "takeover intent ", "preempt outcome done", "takeover outcome done"}, acts)
}

func TestPreemptedPolitely(t *testing.T) {
	t.Run("it does not go in time", func(t *testing.T) {
		f := newFortress(t, time.Minute)
		code, out, errs := f.lockkeeper(t, "locks", "preempt", "db/orders", "--reason", "hotfix", "--waiting", "100ms", "-o", "json")
		require.Equal(t, exitNotAcquired, code, errs)
		require.Contains(t, out, `"outcome": "pending"`)
		require.False(t, told[lock.PreemptRequested](t, f).Forceful)
		told[lock.PreemptionWithdrawn](t, f)
		require.NoError(t, f.grant.Check())
		records := f.records(t)
		require.Len(t, records, 2)
		require.Equal(t, opstore.AuditFailed, records[1].Result)
	})
	t.Run("it goes", func(t *testing.T) {
		f := newFortress(t, time.Minute)
		go func() {
			for n := range f.notices {
				if _, ok := n.(lock.PreemptRequested); ok {
					_ = f.grant.Release(context.Background())
					return
				}
			}
		}()
		code, out, errs := f.lockkeeper(t, "locks", "preempt", "db/orders", "--reason", "hotfix")
		require.Zero(t, code, errs)
		require.Contains(t, out, "batch was preempted and has released the lock, after ")
		require.Contains(t, out, "now       held by next (")
		require.Len(t, f.records(t), 2)
	})
}

func TestPersonAtTheTerminalIsAsked(t *testing.T) {
	p := &program{stderr: new(bytes.Buffer)}
	require.NoError(t, p.confirm(false, "Break its lock?"), "there is no terminal")
	require.NoError(t, p.confirm(true, "Break its lock?"))
}
