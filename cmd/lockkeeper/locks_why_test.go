package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// goldenPages compares what is written with a file, at 80 and at 160 columns and as
// JSON.
func goldenPages(t *testing.T, name string, view any, draw func(pg page)) {
	t.Helper()
	for _, width := range []int{80, 160} {
		pg := page{new(bytes.Buffer), width, false}
		draw(pg)
		for line := range strings.Lines(pg.String()) {
			if !strings.Contains(line, "lockkeeper locks ") { // commands stay whole, so that they can be copied
				require.LessOrEqual(t, utf8.RuneCountInString(line), width+1, line)
			}
		}
		require.NotContains(t, pg.String(), "\x1b")
		same(t, name+"."+strconv.Itoa(width)+".txt", pg.String())
	}
	out := new(bytes.Buffer)
	p := &program{stdout: out}
	require.NoError(t, p.writeJSON(view))
	same(t, name+".json", out.String())
	require.Regexp(t, `^[\[{]`, out.String())
	keysAreSnakeCase(t, out.Bytes())
}

func same(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", filepath.FromSlash(file))
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "write it with: go test ./cmd/lockkeeper -run %s -update", t.Name())
	require.Equal(t, string(want), got, file)
}

func keysAreSnakeCase(t *testing.T, text []byte) {
	t.Helper()
	var tree any
	require.NoError(t, json.Unmarshal(text, &tree))
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, below := range v {
				require.Regexp(t, `^[a-z][a-z0-9_]*$`, k)
				walk(below)
			}
		case []any:
			for _, below := range v {
				walk(below)
			}
		}
	}
	walk(tree)
}

// reindex holds db/orders since 6m12s; 62% of its lease are used.
func reindex(change ...func(*lock.Contender)) lock.Contender {
	h := lock.Contender{
		ID: "aaa", Identity: priority.Identity{Owner: "nightly-reindex", Host: "h3", PID: 811, Message: "rebuilds all of the indexes"}, Terms: priority.Terms{
			Priority:     40,
			LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute,
		}, Token: 7301444,
		Remaining: priority.Remaining{LeaseLeft: 228 * time.Second}, Since: at(-372 * time.Second),
	}
	for _, f := range change {
		f(&h)
	}
	return h
}

// hotfix waits since 41 seconds.
func hotfix(change ...func(*lock.Contender)) lock.Contender {
	w := lock.Contender{
		ID: "bbb", Identity: priority.Identity{Owner: "hotfix-migrate", Host: "h1", PID: 12}, Terms: priority.Terms{
			Priority: 90, Forceful: true,
			LeaseTimeout: 10 * time.Minute, CleanupTimeout: 30 * time.Second, AcquireTimeout: new(5 * time.Minute),
		}, Joined: at(-41 * time.Second), Position: 1,
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func rollup(change ...func(*lock.Contender)) lock.Contender {
	w := lock.Contender{
		ID: "ccc", Identity: priority.Identity{Owner: "stats-rollup", Host: "h2", PID: 13}, Terms: priority.Terms{
			Priority:     40,
			LeaseTimeout: 10 * time.Minute, AcquireTimeout: new(15 * time.Minute),
		}, Joined: at(-185 * time.Second), Position: 2,
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func first(c *lock.Contender)  { c.Position = 1 }
func reader(c *lock.Contender) { c.Mode = priority.Shared }

func asked(by lock.Contender, ago time.Duration, reason priority.Reason) func(*lock.Contender) {
	return func(h *lock.Contender) {
		h.PreemptedBy = append(h.PreemptedBy, lock.Preemptor{
			ID: by.ID, Owner: by.Owner, Priority: by.Priority, Reason: reason, Forceful: by.Forceful, Grace: time.Minute, At: at(-ago), Override: by.Override,
		})
	}
}

func orders(holders []lock.Contender, waiters ...lock.Contender) lock.State {
	return lock.State{Scope: "db/orders", At: at(0), Holders: holders, Waiters: waiters}
}

func one(h lock.Contender) []lock.Contender { return []lock.Contender{h} }

// crossing are two jobs each of which holds what the other one waits for.
func crossing() []lock.State {
	return []lock.State{
		{
			Scope: "db/orders", At: at(0),
			Holders: one(lock.Contender{ID: "o1", Identity: priority.Identity{Owner: "orders-compact", Host: "h1", PID: 21}, Terms: priority.Terms{Priority: 20, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}, Token: 900, Remaining: priority.Remaining{LeaseLeft: 7 * time.Minute}, Since: at(-3 * time.Minute)}),
			Waiters: []lock.Contender{{ID: "o2", Identity: priority.Identity{Owner: "users-compact", Host: "h2", PID: 22}, Terms: priority.Terms{Priority: 20, LeaseTimeout: 10 * time.Minute}, Joined: at(-62 * time.Second), Position: 1, Under: []string{"u1"}}},
		},
		{
			Scope: "db/users", At: at(0),
			Holders: one(lock.Contender{ID: "u1", Identity: priority.Identity{Owner: "users-compact", Host: "h2", PID: 22}, Terms: priority.Terms{Priority: 20, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}, Token: 904, Remaining: priority.Remaining{LeaseLeft: 8 * time.Minute}, Since: at(-2 * time.Minute)}),
			Waiters: []lock.Contender{{ID: "u2", Identity: priority.Identity{Owner: "orders-compact", Host: "h1", PID: 21}, Terms: priority.Terms{Priority: 20, LeaseTimeout: 10 * time.Minute}, Joined: at(-61 * time.Second), Position: 1, Under: []string{"o1"}}},
		},
	}
}

func incident(kind override.Kind, change ...func(*override.Override)) override.Override {
	o := override.Override{
		ID: "INC-4411", Kind: kind, Match: override.Match{Scope: "db/*"}, Until: at(2 * time.Hour), By: "ana", Reason: "payments are stuck behind the nightly batch",
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

// situations are what locks why is asked about, at 12:00 UTC.
func situations() map[string]*whyFacts {
	ana := &lock.Mark{ID: "INC-4411", By: "ana", Reason: "payments are stuck"}
	delta := func(c *lock.Contender) { c.PreemptDelta, c.Forceful, c.Priority = 60, false, 90 }
	lasting := func(c *lock.Contender) { c.MinRuntime, c.MinRuntimeLeft = 7*time.Minute, time.Minute }
	over := func(c *lock.Contender) { c.LeaseLeft, c.Since = 0, at(-23*time.Minute) }
	polite := func(c *lock.Contender) { c.Forceful, c.WaitingTimeout = false, new(2*time.Minute) }
	about := func(scope string, states ...lock.State) *whyFacts { return newWhyFacts(scope, states) }
	with := func(f *whyFacts, change func(*whyFacts)) *whyFacts {
		change(f)
		return f
	}
	withSelf := orders([]lock.Contender{reindex(reader), rollupHolding()}, hotfix(func(c *lock.Contender) { c.Under = []string{"aaa"} }))
	return map[string]*whyFacts{
		"never_locked": with(about("db/orders"), func(f *whyFacts) { f.now = at(0) }),
		"free":         with(about("db/orders", lock.State{Scope: "db/orders", Evicted: []lock.Eviction{{ID: "x", Owner: "nightly-reindex", By: "hotfix-migrate", Reason: priority.Outranked, At: at(-9 * time.Minute)}}}), func(f *whyFacts) { f.now = at(0) }),
		"about_to_get": about("db/orders", orders(nil, hotfix())),
		"held":         about("db/orders", orders(one(reindex(lasting)))),
		"lease_over":   about("db/orders", orders(one(reindex(over)))),
		"lease_over_asked": about("db/orders", orders(one(reindex(over, asked(rollup(), 20*time.Second, priority.LeaseExpired))),
			rollup(first))),
		"forceful": about("db/orders", orders(one(reindex(asked(hotfix(), 40*time.Second, priority.Outranked))), hotfix(), rollup())),
		"polite": about("db/orders", orders(one(reindex(asked(hotfix(polite), 40*time.Second, priority.Outranked))),
			hotfix(polite), rollup())),
		"approval": with(about("db/orders", orders(one(reindex(asked(hotfix(polite), 190*time.Second, priority.Outranked))), hotfix(polite))), func(f *whyFacts) {
			f.approvals = []opstore.Approval{
				{ID: "a-0000000017", Opened: at(-70 * time.Second), Until: at(830 * time.Second), ApprovalRequest: opstore.ApprovalRequest{Scope: "db/orders", Requestor: hotfix().Party()}},
				{ID: "a-0000000018", ApprovalRequest: opstore.ApprovalRequest{Scope: "db/other"}},
			}
		}),
		"min_runtime":    about("db/orders", orders(one(reindex(lasting)), hotfix(), rollup())),
		"preempt_delta":  about("db/orders", orders(one(reindex()), hotfix(delta))),
		"never_preempts": about("db/orders", orders(one(reindex()), hotfix(func(c *lock.Contender) { c.NeverPreempts, c.AcquireTimeout = true, nil }))),
		"equals":         about("db/orders", orders(one(reindex()), rollup(first), rollup(func(c *lock.Contender) { c.ID, c.AcquireTimeout = "ddd", new(4*time.Minute) }))),
		"shared": about("db/orders", orders([]lock.Contender{reindex(reader), rollupHolding()},
			hotfix(), rollup(reader), rollup(reader, func(c *lock.Contender) { c.ID, c.Position, c.Owner = "eee", 3, "stats-report" }))),
		"override_marks": about("db/orders", func() lock.State {
			boosted := hotfix(func(c *lock.Contender) { c.Priority, c.Override = priority.Emergency, ana })
			s := orders(one(reindex(asked(boosted, 10*time.Second, priority.Outranked))), boosted)
			s.Evicted = []lock.Eviction{{ID: "x", Owner: "weekly-report", By: "lockkeeper", Override: ana, Reason: priority.Outranked}, {ID: "y", Owner: "batch", By: "digest:ana", Why: "its host is gone", At: at(-time.Minute)}, {ID: "z", Owner: "weekly", By: "nightly-reindex", Reason: priority.LeaseExpired, At: at(-7 * time.Minute)}}
			return s
		}()),
		"freeze": with(about("db/orders", orders(one(reindex()), rollup(first))), func(f *whyFacts) {
			f.overrides = override.Set{
				incident(override.Freeze, func(o *override.Override) { o.Match.PriorityBelow = new(priority.Level(80)) }),
				incident(override.Boost, func(o *override.Override) {
					o.ID, o.Match, o.Priority = "INC-4412", override.Match{Job: "hotfix-*"}, new(priority.Emergency)
				}),
				incident(override.Pause, func(o *override.Override) { o.ID, o.Match = "INC-4413", override.Match{Job: "nightly-*"} }),
				incident(override.Cap, func(o *override.Override) {
					o.ID, o.Match, o.Priority = "INC-4414", override.Match{Job: "stats-*"}, new(priority.Level(5))
				}),
			}
		}),
		"frozen_outside": with(about("db/orders", lock.State{Scope: "db/orders"}), func(f *whyFacts) {
			f.now, f.outside = at(0), outside()
			f.overrides = override.Set{incident(override.Freeze)}
		}),
		"job_frozen_outside": with(about("importer-19", lock.State{Scope: "db/orders"}), func(f *whyFacts) {
			f.now, f.outside = at(0), outside()
			f.overrides = override.Set{incident(override.Freeze)}
		}),
		"delayed": about("db/orders", lock.State{
			Scope: "db/orders", At: at(0), Waiters: []lock.Contender{hotfix()},
			Delays: []lock.Delay{{ID: "gone", Owner: "nightly-reindex", LockDelay: time.Minute, Until: at(20 * time.Second)}},
		}),
		"deadlock": about("db/orders", crossing()...),
		"job":      about("orders-compact", crossing()...),
		"job_holds": with(about("nightly-reindex", orders(one(reindex()), rollup(first))), func(f *whyFacts) {
			f.overrides = override.Set{incident(override.Pause, func(o *override.Override) { o.Match = override.Match{Job: "nightly-*"} })}
		}),
		"traced": about("db/orders", orders(one(reindex(func(c *lock.Contender) {
			c.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		})), hotfix(func(c *lock.Contender) { c.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" }), rollup())),
		"job_in_line": about("stats-rollup", orders(one(reindex()), hotfix(), rollup())),
		"upgrade":     about("db/orders", withSelf),
		"circle_broken": about("db/orders", func() []lock.State {
			s := crossing()
			s[1].Waiters[0].Priority, s[1].Waiters[0].Forceful = 90, true
			return s
		}()...),
		"job_idle": with(about("backup", orders(nil)), func(f *whyFacts) {
			f.now = at(0)
			f.ticks = &ticks.State{Job: "backup", History: []ticks.Result{{
				End: ticks.End{Outcome: ticks.Skipped, Reason: "overlap"}, EndedAt: at(-time.Hour), Count: 1, First: at(-time.Hour),
				Run: ticks.Run{Instant: at(-time.Hour)},
			}}}
		}),
		"job_frozen": with(about("backup", orders(nil)), func(f *whyFacts) {
			f.now = at(0)
			f.ticks = &ticks.State{Job: "backup", Runs: []ticks.Run{{Instant: at(-time.Minute), ClaimedAt: at(-time.Minute), Alive: true}}}
			f.overrides = override.Set{incident(override.Freeze), incident(override.Boost, func(o *override.Override) {
				o.ID, o.Priority = "INC-4412", new(priority.Emergency)
			}), incident(override.Freeze, func(o *override.Override) { o.ID, o.Match = "INC-4413", override.Match{Job: "nightly-*"} })}
		}),
		"job_frozen_elsewhere": with(about("backup", orders(nil)), func(f *whyFacts) {
			f.now = at(0)
			f.ticks = &ticks.State{Job: "backup", Runs: []ticks.Run{{Instant: at(-time.Minute), ClaimedAt: at(-time.Minute), Alive: true}}}
			f.job = &jobs.Job{Name: "backup", Requirements: []lockguard.Requirement{{Scope: "storage"}}}
			f.overrides = override.Set{incident(override.Freeze)}
		}),
		"crowd": about("db/orders", func() lock.State {
			s := orders(one(reindex()))
			for i := range 23 {
				s.Waiters = append(s.Waiters, rollup(func(c *lock.Contender) {
					c.ID, c.Position, c.AcquireTimeout = strconv.Itoa(i), i+1, nil
				}))
			}
			return s
		}()),
		"misspelt": about("db/order", orders(one(reindex())), lock.State{Scope: "web", At: at(0)}),
		"held_for_an_operator": about("db/orders", orders(one(reindex(func(c *lock.Contender) {
			c.Owner, c.Priority, c.Override = "ana", priority.Emergency, ana
		})), hotfix())),
		"strange": with(about("db/orders; rm -rf", func() []lock.State {
			s := crossing()
			s[0].Scope = "db/orders; rm -rf"
			s[0].Holders[0].Message, s[0].Foreign = "\x1b[2J\nfree", []string{"notes"}
			return s
		}()...), func(f *whyFacts) { f.unread = []string{"the overrides in ZooKeeper: access is refused"} }),
	}
}

func rollupHolding() lock.Contender {
	h := reindex(reader)
	h.ID, h.Owner, h.Host, h.Token, h.Since, h.LeaseLeft, h.Message = "fff", "stats-view", "h2", 7301450, at(-2*time.Minute), 8*time.Minute, ""
	return h
}

func TestWhyInWords(t *testing.T) {
	for name, f := range situations() {
		t.Run(name, func(t *testing.T) {
			goldenPages(t, "why/"+name, newWhyView(f), func(pg page) { writeWhy(pg, f) })
		})
	}
}

// A job whose record cannot be read is a job all the same: what is known of its requests stands.
func TestWhyOfAJobWhoseRecordCannotBeRead(t *testing.T) {
	f := newWhyFacts("backup", nil)
	f.now, f.ticksUnread, f.unread = at(0), true, []string{"the record of backup has format 9"}
	require.Equal(t, `
backup: holds no lock and waits for none (2026-11-21 12:00:00 UTC)

job       how it fared cannot be read: see below

unknown   the record of backup has format 9
`, "\n"+drawn(80, func(pg page) { writeWhy(pg, f) }))
	require.Equal(t, "job", newWhyView(f).Kind)
}

func TestWhatWouldHappenToAJob(t *testing.T) {
	job := jobs.Job{Name: "hotfix-migrate", Schedule: "0 2 * * *", Labels: map[string]string{"team": "payments"}, Requirements: []lockguard.Requirement{
		{Scope: "db/orders", Terms: priority.Terms{Priority: 20, AcquireTimeout: new(time.Minute), CleanupTimeout: 20 * time.Second}},
		{Scope: "db/users", Terms: priority.Terms{Priority: 20, Mode: priority.Shared}},
	}}
	boost := incident(override.Boost, func(o *override.Override) {
		o.Match = override.Match{Labels: map[string]string{"team": "payments"}}
		o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Emergency), new(true), new(30*time.Second)
	})
	scope := func(o *override.Override) { o.ID, o.Match = "INC-5", override.Match{Scope: "db/orders"} }
	for name, all := range map[string]override.Set{
		"as_it_is": nil,
		"boosted":  {boost},
		"frozen":   {incident(override.Freeze, scope)},
		"bypass":   {incident(override.Bypass, scope), boost},
		"paused":   {incident(override.Pause, func(o *override.Override) { o.Match = override.Match{Job: "hotfix-*"} })},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWhyFacts(job.Name, []lock.State{orders(one(reindex()), rollup(first))})
			f.overrides = all
			view := newIfRun(f, job)
			goldenPages(t, "why/if_run_"+name, view, func(pg page) { writeIfRun(pg, view, f.now) })
		})
	}
	t.Run("nothing to wait for", func(t *testing.T) {
		f := newWhyFacts("tidy", nil)
		f.now = at(0)
		view := newIfRun(f, jobs.Job{Name: "tidy"})
		goldenPages(t, "why/if_run_no_locks", view, func(pg page) { writeIfRun(pg, view, f.now) })
	})
}

// outside is a request that an override keeps out of the queue.
func outside() []lock.FrozenRequest {
	return []lock.FrozenRequest{{
		ID: "fff", Scope: "db/orders", Identity: priority.Identity{Owner: "importer-19", Host: "h4", PID: 14}, Since: at(-20 * time.Second), Until: at(time.Hour),
		Override: lock.Mark{ID: "INC-4411", By: "ana", Reason: "disks are failing"},
	}}
}
