package console

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// scripted is a board that shows what a test says.
type scripted struct {
	mu       sync.Mutex
	snap     *live.Snapshot
	changed  chan struct{}
	timeline func(scope string, from, to time.Time) live.Timeline
	heat     func(from, to time.Time, columns int) live.Heat
	entries  []live.Entry
	before   func() // the next read
}

func newScripted(s live.Snapshot) *scripted {
	return &scripted{snap: &s, changed: make(chan struct{})}
}

// beforeRead has something happen when what is shown is read, once.
func (s *scripted) beforeRead(happens func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = happens
}

func (s *scripted) read() {
	s.mu.Lock()
	before := s.before
	s.before = nil
	s.mu.Unlock()
	if before != nil {
		before()
	}
}

func (s *scripted) Now() *live.Snapshot {
	s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap
}

// show makes another snapshot the newest.
func (s *scripted) show(snap live.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.Version = s.snap.Version + 1
	s.snap = &snap
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *scripted) Changes(ctx context.Context) iter.Seq[*live.Snapshot] {
	return func(yield func(*live.Snapshot) bool) {
		for {
			s.mu.Lock()
			snap, changed := s.snap, s.changed
			s.mu.Unlock()
			if !yield(snap) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *scripted) Timeline(scope string, from, to time.Time) live.Timeline {
	if s.timeline == nil {
		return live.Timeline{Scope: scope, From: from, To: to}
	}
	return s.timeline(scope, from, to)
}

func (s *scripted) Heat(from, to time.Time, columns int) live.Heat {
	if s.heat == nil {
		return live.Heat{From: from, Slice: priority.Millis(to.Sub(from)) / priority.Millis(columns)}
	}
	return s.heat(from, to, columns)
}

func (s *scripted) Entries(after uint64, most int) []live.Entry {
	s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.entries, after+1, func(e live.Entry, n uint64) int { return int(e.N) - int(n) })
	all := s.entries[i:]
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	return slices.Clone(all)
}

// happen adds an entry.
func (s *scripted) happen(e live.Entry) {
	s.mu.Lock()
	e.N = uint64(len(s.entries) + 1)
	s.entries = append(s.entries, e)
	snap := *s.snap
	s.mu.Unlock()
	snap.Entries = e.N
	s.show(snap)
}

// busy is a cluster in which much is going on, at a time.
func busy(now time.Time) live.Snapshot {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	holder := func(id, owner, host string, level priority.Level, held, lease time.Duration, token lock.Token) live.Holder {
		return live.Holder{
			Contender: live.Contender{ID: id, Owner: owner, Host: host, PID: 4711, Priority: level, CleanupTimeout: 30_000},
			Token:     token, Since: ago(held), LeaseTimeout: lease.Milliseconds(), LeaseLeft: max(0, lease-held).Milliseconds(), PreemptedBy: []live.Preemptor{},
		}
	}
	waiter := func(place int, id, owner, host string, level priority.Level, waited time.Duration, why string, blockers ...string) live.Waiter {
		return live.Waiter{
			Contender: live.Contender{ID: id, Owner: owner, Host: host, PID: 99, Priority: level}, Position: place, WaitingSince: ago(waited), Why: why, Blockers: blockers,
			LeaseTimeout: 600_000,
		}
	}
	exclusive, shared := priority.Exclusive, priority.Shared
	orders := live.Lock{Scope: "cluster/orders/resource/users", State: "held", Mode: &exclusive, At: now}
	h := holder("h-compaction", "nightly-compaction", "db-7", 10, 14*time.Minute, 10*time.Minute, 7301444)
	h.Message = "compacting users; safe to interrupt between tables"
	h.PreemptedBy = []live.Preemptor{{ID: "w-hotfix", Owner: "payments-hotfix", Priority: 80, Reason: "outranked", Forceful: true, Grace: 30_000, Since: ago(12 * time.Second), Until: now.Add(18 * time.Second)}}
	h.State = live.CleaningUp
	h.Trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	orders.Holders = []live.Holder{h}
	orders.Waiters = []live.Waiter{
		waiter(1, "w-hotfix", "payments-hotfix", "app-2", 80, 13*time.Second, "nightly-compaction was preempted and may clean up for 18s; then it takes the lock", "h-compaction"),
		waiter(2, "w-export", "billing-export", "app-1", 20, 11*time.Minute, "stands behind payments-hotfix", "w-hotfix"),
		waiter(3, "w-report", "daily-report", "app-3", 5, 9*time.Minute, "stands behind billing-export", "w-export"),
	}
	orders.Waiters[0].Trace = "0af7651916cd43dd8448eb211c80319c"
	orders.OldestWait = new(ago(11 * time.Minute))
	orders.RootBlocker = &live.Ref{ID: "h-compaction", Owner: "nightly-compaction", Scope: orders.Scope, State: "holds", Priority: 10, Token: 7301444}

	billing := live.Lock{Scope: "cluster/billing", State: "held", Mode: &exclusive, At: now}
	billing.Holders = []live.Holder{holder("h-export", "billing-export", "app-1", 20, 12*time.Minute, 30*time.Minute, 7301201)}
	billing.Waiters = []live.Waiter{waiter(1, "w-dunning", "dunning", "app-2", 10, 8*time.Minute, "billing-export holds the lock, and its own work waits for cluster/orders/resource/users", "h-export")}
	billing.OldestWait = new(ago(8 * time.Minute))
	billing.RootBlocker = orders.RootBlocker

	index := live.Lock{Scope: "search/index", State: "held", Mode: &shared, At: now}
	a, b := holder("h-r1", "reader-1", "srch-1", 0, 40*time.Second, time.Hour, 88), holder("h-r2", "reader-2", "srch-2", 0, 31*time.Second, time.Hour, 89)
	a.Mode, b.Mode = shared, shared
	index.Holders = []live.Holder{a, b}
	archive := live.Lock{Scope: "archive/2026", State: "held", Mode: &exclusive, At: now, Holders: []live.Holder{holder("h-arch", "archive", "db-9", 0, 3*time.Hour, 8*time.Hour, 12)}}
	lagging := live.Lock{
		Scope: "tenant/4711/sync", State: "delayed", At: now,
		Delays: []live.Delay{{ID: "gone", Owner: "sync-4711", Mode: exclusive, LockDelay: 60_000, Until: new(now.Add(41 * time.Second))}},
	}
	free := live.Lock{Scope: "tenant/0815/sync", State: "free"}
	damaged := live.Lock{Scope: "tenant/666/sync", State: "free", Damage: "its data is no JSON"}
	s := live.Snapshot{
		At: now, Version: 7, Complete: true, Entries: 6,
		Locks:  []live.Lock{archive, billing, orders, index, free, lagging, damaged},
		Totals: live.Totals{Locks: 7, Held: 4, Delayed: 1, Holders: 5, Waiters: 4, OldestWait: orders.OldestWait, OldestHold: new(ago(3 * time.Hour))},
		Waits: live.Graph{
			Nodes: []live.GraphNode{
				{ID: "h-export", Label: "billing-export", Scope: "cluster/billing", Owner: "billing-export", State: "holds"},
				{ID: "w-dunning", Label: "dunning", Scope: "cluster/billing", Owner: "dunning", State: "waits"},
				{ID: "h-compaction", Label: "nightly-compaction", Scope: orders.Scope, Owner: "nightly-compaction", State: "holds"},
				{ID: "w-hotfix", Label: "payments-hotfix", Scope: orders.Scope, Owner: "payments-hotfix", State: "waits"},
				{ID: "w-export", Label: "billing-export", Scope: orders.Scope, Owner: "billing-export", State: "waits"},
				{ID: "w-report", Label: "daily-report", Scope: orders.Scope, Owner: "daily-report", State: "waits"},
			},
			Edges: []live.GraphEdge{
				{From: "w-dunning", To: "h-export", Why: inspect.WaitHeld},
				{From: "h-export", To: "w-export", Why: inspect.WaitUnder},
				{From: "w-hotfix", To: "h-compaction", Why: inspect.WaitHeld},
				{From: "w-export", To: "w-hotfix", Why: inspect.WaitAhead},
				{From: "w-report", To: "w-export", Why: inspect.WaitAhead},
			},
		},
	}
	for i := range s.Locks { // as a board has them
		l := &s.Locks[i]
		l.Holders, l.Waiters = append([]live.Holder{}, l.Holders...), append([]live.Waiter{}, l.Waiters...)
	}
	slices.SortFunc(s.Locks, func(a, b live.Lock) int { return strings.Compare(a.Scope, b.Scope) })
	return s
}

// busyBoard has a history, too.
func busyBoard(now time.Time) *scripted {
	b := newScripted(busy(now))
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	b.timeline = func(scope string, from, to time.Time) live.Timeline {
		t := live.Timeline{Scope: scope, From: from, To: to, Known: ago(2 * time.Hour)}
		if scope != "cluster/orders/resource/users" {
			return t
		}
		t.Rows = []live.Row{
			{ID: "r-1", Owner: "rollup", Host: "db-3", PID: 12, Priority: 10, Spells: []live.Spell{
				{Kind: live.SpellHolding, From: ago(26 * time.Minute), To: ago(15 * time.Minute), Token: 7301200, End: live.EndPreempted},
				{Kind: live.SpellLeaving, From: ago(15 * time.Minute), To: ago(14*time.Minute + 20*time.Second), Token: 7301200, End: live.EndPreempted},
			}},
			{ID: "h-compaction", Owner: "nightly-compaction", Host: "db-7", PID: 4711, Priority: 10, Spells: []live.Spell{
				{Kind: live.SpellWaiting, From: ago(16 * time.Minute), To: ago(14 * time.Minute), End: live.EndGranted},
				{Kind: live.SpellHolding, From: ago(14 * time.Minute), To: ago(12 * time.Second), Token: 7301444, End: live.EndPreempted},
				{Kind: live.SpellLeaving, From: ago(12 * time.Second), Token: 7301444},
			}},
			{ID: "w-export", Owner: "billing-export", Host: "app-1", PID: 99, Priority: 20, Spells: []live.Spell{{Kind: live.SpellWaiting, From: ago(11 * time.Minute)}}},
			{ID: "w-report", Owner: "daily-report", Host: "app-3", PID: 99, Priority: 5, Spells: []live.Spell{{Kind: live.SpellWaiting, From: ago(9 * time.Minute)}}},
			{ID: "w-hotfix", Owner: "payments-hotfix", Host: "app-2", PID: 99, Priority: 80, Spells: []live.Spell{{Kind: live.SpellWaiting, From: ago(13 * time.Second)}}},
		}
		t.Marks = []live.Mark{
			{At: ago(15 * time.Minute), Kind: live.MarkPreempt, From: "h-compaction", To: "r-1", Text: "lease over"},
			{At: ago(12 * time.Second), Kind: live.MarkPreempt, From: "w-hotfix", To: "h-compaction", Text: "outranked"},
		}
		return t
	}
	b.heat = func(from, to time.Time, columns int) live.Heat {
		h := live.Heat{From: from, Slice: priority.Millis(to.Sub(from)) / priority.Millis(columns)}
		for i, scope := range []string{"cluster/orders/resource/users", "cluster/billing", "search/index"} {
			row := live.HeatRow{Scope: scope, Waited: make([]priority.Millis, columns)}
			for j := range row.Waited {
				if j > columns/(i+2) {
					row.Waited[j] = h.Slice * priority.Millis((j*(3-i))%5) / 2
				}
			}
			h.Rows = append(h.Rows, row)
		}
		return h
	}
	for i, e := range []live.Entry{
		{At: ago(14 * time.Minute), Kind: live.EntryGranted, Scope: "cluster/orders/resource/users", ID: "h-compaction", Owner: "nightly-compaction", Text: "nightly-compaction has the lock, token 7301444"},
		{At: ago(11 * time.Minute), Kind: live.EntryWaiting, Scope: "cluster/orders/resource/users", ID: "w-export", Owner: "billing-export", Text: "billing-export waits"},
		{At: ago(4 * time.Minute), Kind: live.EntryLost, Scope: "tenant/4711/sync", ID: "gone", Owner: "sync-4711", Text: "sync-4711 ended without releasing the lock"},
		{At: ago(3 * time.Minute), Kind: live.EntryOverride, Scope: "archive/2026", Owner: "archive", Text: "INC-4411 freezes requests"},
		{At: ago(13 * time.Second), Kind: live.EntryWaiting, Scope: "cluster/orders/resource/users", ID: "w-hotfix", Owner: "payments-hotfix", Text: "payments-hotfix waits"},
		{At: ago(12 * time.Second), Kind: live.EntryPreempted, Scope: "cluster/orders/resource/users", ID: "h-compaction", Owner: "nightly-compaction", By: "payments-hotfix", Text: "payments-hotfix asks nightly-compaction to go: 30s to clean up"},
	} {
		e.N = uint64(i + 1)
		b.entries = append(b.entries, e)
	}
	return b
}

// answering is a fact with nothing that cannot be read.
func answering[T any](all ...T) func(context.Context) ([]T, []lock.Unreadable, error) {
	return func(context.Context) ([]T, []lock.Unreadable, error) { return slices.Clone(all), nil, nil }
}

// busyFacts are what is known beside the locks.
func busyFacts(now time.Time) Facts {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tick := func(d time.Duration, outcome, reason string) views.Tick {
		return views.Tick{
			ID: fmt.Sprintf("t%d", int(d.Minutes())), Scheduled: new(ago(d)), Count: 1, Outcome: outcome, Reason: reason, Owner: "nightly-compaction", Host: "db-7", PID: 4711,
			StartedAt: new(ago(d)), EndedAt: ago(d - time.Minute), Waited: 1200, Took: 58_000, Token: 7300000, Attempts: 1,
		}
	}
	history := []views.Tick{}
	for i := 28; i > 0; i-- {
		outcome, reason := "ran", ""
		switch {
		case i%9 == 0:
			outcome, reason = "failed", "exit status 1"
		case i%7 == 0:
			outcome, reason = "preempted", "preempted by payments-hotfix"
		case i%5 == 0:
			outcome, reason = "skipped", "overlap"
		}
		history = append(history, tick(time.Duration(i)*time.Hour, outcome, reason))
	}
	counts := views.TickCounts{Ran: 1211, Failed: 14, Preempted: 9, Skipped: map[string]int64{"overlap": 31, "lock": 4}}
	compaction := views.Job{
		Name: "nightly-compaction", State: "running", By: "lockkeeper", Schedule: new("0 * * * *"), Timezone: new("Europe/Berlin"), Next: new(now.Add(46 * time.Minute)),
		Locks: []string{"cluster/orders/resource/users"}, Waiting: []time.Time{}, Last: &history[len(history)-1], Counts: counts,
		Runs: []views.Run{{ID: "run-1", Scheduled: new(ago(14 * time.Minute)), Owner: "nightly-compaction", Host: "db-7", PID: 4711, StartedAt: ago(14 * time.Minute), Alive: true}},
	}
	does := func(job, state, scope string, since time.Duration, change func(*live.Request)) views.Job {
		r := live.Request{State: state, ID: "w-" + job, Scope: scope, Owner: job, Host: "app-1", PID: 99, Since: ago(since), For: []live.Blocker{}}
		change(&r)
		return views.Job{
			Name: job, State: state, By: "lockkeeper", Locks: []string{scope}, Waiting: []time.Time{}, Counts: views.TickCounts{Skipped: map[string]int64{}},
			Runs: []views.Run{{ID: "run-" + job, Owner: job, Host: "app-1", PID: 99, StartedAt: ago(since + time.Second), Alive: true, State: state, Request: &r}},
		}
	}
	failed := tick(20*time.Minute, "failed", "exit status 3")
	jobs := []views.Job{
		{Name: "billing-export", State: "idle", By: "lockkeeper", Schedule: new("@every 30m"), Next: new(now.Add(11 * time.Minute)), Locks: []string{"cluster/billing", "cluster/orders/resource/users"}, Runs: []views.Run{}, Waiting: []time.Time{}, Last: &failed, Failures: 3, Counts: views.TickCounts{Skipped: map[string]int64{}}},
		{Name: "daily-report", State: "paused", By: "lockkeeper", Schedule: new("30 6 * * *"), Timezone: new("UTC"), Locks: []string{}, Runs: []views.Run{}, Waiting: []time.Time{}, Paused: &views.Pause{By: "ana", Reason: "disk is full (INC-4411)", Since: ago(time.Hour)}, Counts: views.TickCounts{Skipped: map[string]int64{}}},
		does("dunning", live.Waiting, "cluster/billing", 8*time.Minute, func(r *live.Request) {
			r.For = []live.Blocker{{ID: "h-export", Owner: "billing-export", Host: "app-1", PID: 4711, Holds: true}}
		}),
		does("mirror", live.Frozen, "archive/2026", 3*time.Minute, func(r *live.Request) {
			r.Override, r.Until = &lock.Mark{ID: "INC-4411", By: "ana", Reason: "disk is full"}, new(now.Add(94*time.Minute))
		}),
		compaction,
		does("sync-4711", live.Delayed, "tenant/4711/sync", 19*time.Second, func(r *live.Request) {
			r.For, r.Until = []live.Blocker{{ID: "gone", Owner: "sync-4711"}}, new(now.Add(41*time.Second))
		}),
	}
	group := views.Group{
		Name: "shards", Strategy: "even", Holders: 1, Controller: new("node-a"), Held: 3, Generation: 4, Moved: 1, MovedTotal: 9,
		Members: []views.GroupMember{{Name: "node-a", ID: "m1", Host: "db-1", PID: 7, Since: ago(5 * time.Hour), Controller: true, State: "joined", Locks: 2}, {Name: "node-b", ID: "m2", Host: "db-2", PID: 8, Since: ago(3 * time.Hour), State: "joined", Locks: 1}},
		Locks: []views.GroupLock{
			{Lock: "shard-1", State: "LOCKED", Holders: []views.GroupHolder{{Name: "node-a", ID: "m1", Token: 5}}, Planned: []string{"node-a"}},
			{Lock: "shard-2", State: "LOCKED", Holders: []views.GroupHolder{{Name: "node-b", ID: "m2", Token: 6}}, Planned: []string{"node-b"}},
			{Lock: "shard-3", State: "LOCKED", Holders: []views.GroupHolder{{Name: "node-a", ID: "m1", Token: 7, Releasing: true}}, Planned: []string{"node-b"}},
			{Lock: "shard-4", State: "RELEASED", Holders: []views.GroupHolder{}, Planned: []string{"node-b"}},
		},
	}
	party := opstore.AuditParty{ID: "w-hotfix", Owner: "payments-hotfix", Host: "app-2", PID: 99, Priority: 80}
	victim := opstore.AuditParty{ID: "h-compaction", Owner: "nightly-compaction", Host: "db-7", PID: 4711, Priority: 10, Token: 7301444}
	return Facts{
		Jobs: answering(jobs...),
		Job: func(_ context.Context, name string) (views.JobDetail, error) {
			if _, err := lock.EscapeScope(name); err != nil { // as the ledger says of it
				return views.JobDetail{}, err
			}
			i := slices.IndexFunc(jobs, func(j views.Job) bool { return j.Name == name })
			if i < 0 {
				return views.JobDetail{}, &NotKnownError{What: fmt.Sprintf("there is no job %q", name)}
			}
			j := views.JobDetail{Job: jobs[i], History: []views.Tick{}, Ticks: []views.NextTick{}}
			if name == "nightly-compaction" {
				j.History = history
				for i := range 3 {
					at := now.Add(46*time.Minute + time.Duration(i)*time.Hour)
					j.Ticks = append(j.Ticks, views.NextTick{Job: name, At: at, Local: at.Format(time.RFC3339), Zone: "Europe/Berlin", StartsAt: at, Runs: i != 1, Notes: []string{}})
				}
				j.Ticks[1].Notes = []string{"does not run: blackout, month end"}
			}
			return j, nil
		},
		Frozen: answering(lock.FrozenRequest{
			ID: "w-mirror", Scope: "archive/2026", Identity: priority.Identity{Owner: "mirror", Host: "app-1", PID: 99}, Job: "mirror", Since: ago(3 * time.Minute), Until: now.Add(94 * time.Minute),
			Override: lock.Mark{ID: "INC-4411", By: "ana", Reason: "disk is full"},
		}),
		Groups: answering(group),
		Overrides: answering(
			views.Override{Record: override.Override{ID: "INC-4411", Kind: override.Freeze, Match: override.Match{Scope: "archive/*"}, Until: now.Add(94 * time.Minute), By: "ana", Reason: "disk is full"}.Record(), Source: "zookeeper", PostedBy: "digest:ana", PostedAt: ago(time.Hour), Left: 5640000, KeepsOut: []views.KeptOut{{State: live.Frozen, Scope: "archive/2026", Owner: "mirror", Host: "app-1", PID: 99, Since: new(ago(3 * time.Minute))}}},
			views.Override{Record: override.Override{ID: "release-7", Kind: override.Pause, Match: override.Match{Job: "nightly-*"}, Until: now.Add(20 * time.Minute), By: "release-bot", Reason: "release 7"}.Record(), Source: "file", Left: 1200000, KeepsOut: []views.KeptOut{{State: "paused", Owner: "nightly-compaction"}}},
		),
		Approvals: answering(views.Approval{ID: "a-0000000012", Scope: "cluster/orders/resource/users", Requestor: party, Holders: []opstore.AuditParty{victim}, Reason: "payments are stuck", Waited: 120_000, Opened: ago(time.Minute), Until: new(now.Add(13 * time.Minute)), AskedBy: "digest:daemon", Host: "app-2", PID: 99, Kind: "board", Escalated: []opstore.Escalated{}}),
		Audit: func(_ context.Context, q opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
			all := []opstore.AuditRecord{
				auditRecord(1, ago(3*time.Hour), opstore.AuditEntry{Act: "one", Action: opstore.AuditOverrideApply, Phase: opstore.AuditOutcome, Scope: "archive/*", By: "ana", Reason: "disk is full", Override: "INC-4411", After: map[string]string{"override": "freeze scope archive/*"}, Result: opstore.AuditDone}),
				auditRecord(2, ago(time.Hour), opstore.AuditEntry{Act: "two", Action: opstore.AuditBreak, Phase: opstore.AuditIntent, Scope: "cluster/billing", By: "ben", Reason: "its host is gone", Victims: []opstore.AuditParty{victim}}),
				auditRecord(3, ago(time.Hour), opstore.AuditEntry{Act: "two", Action: opstore.AuditBreak, Phase: opstore.AuditOutcome, Scope: "cluster/billing", By: "ben", Reason: "its host is gone", Victims: []opstore.AuditParty{victim}, After: map[string]string{"holders": "billing-export"}, Result: opstore.AuditDone}),
			}
			return slices.DeleteFunc(all, func(r opstore.AuditRecord) bool { return !q.Wants(r) }), nil, nil
		},
	}
}

// auditRecord is one as it would be read.
func auditRecord(seq int64, at time.Time, e opstore.AuditEntry) opstore.AuditRecord {
	return opstore.AuditRecord{Seq: seq, At: at, Prev: "", Hash: "", ID: fmt.Sprint(seq), Identity: "digest:" + e.By, Host: "ops-1", PID: 5, AuditEntry: e}
}

// recorded is an operator that remembers what it was asked for.
type recorded struct {
	mu   sync.Mutex
	asks []string
	err  error

	begun string // what is on record of what has failed
}

func (o *recorded) did(format string, args ...any) (Done, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return Done{Act: o.begun}, o.err
	}
	o.asks = append(o.asks, fmt.Sprintf(format, args...))
	return Done{Text: "It is done.", Act: "act-1"}, nil
}

func (o *recorded) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asks)
}

func (o *recorded) Apply(_ context.Context, one override.Override) (Done, error) {
	return o.did("apply %s by %s: %s", one, one.By, one.Reason)
}

func (o *recorded) Break(_ context.Context, scope string, token lock.Token, by By) (Done, error) {
	return o.did("break %s %s by %s: %s", scope, token, by.Name, by.Reason)
}

func (o *recorded) Clear(_ context.Context, id string, by By) (Done, error) {
	return o.did("clear %s by %s: %s", id, by.Name, by.Reason)
}

func (o *recorded) Concerns(context.Context, override.Override) (int, error) { return 17, nil }

func (o *recorded) Decide(_ context.Context, id string, d opstore.Decision) (Done, error) {
	return o.did("%s %s by %s: %s", d.Word(), id, d.By, d.Reason)
}

func (o *recorded) Pause(_ context.Context, job string, until time.Time, by By) (Done, error) {
	return o.did("pause %s until %s by %s: %s", job, until.Format(time.TimeOnly), by.Name, by.Reason)
}

func (o *recorded) Preempt(_ context.Context, p Preemption) (Done, error) {
	grace := "-"
	if p.Grace != nil {
		grace = p.Grace.String()
	}
	return o.did("preempt %s %s force %t grace %s by %s: %s", p.Scope, p.Token, p.Force, grace, p.By.Name, p.By.Reason)
}

func (o *recorded) Resume(_ context.Context, job string, by By) (Done, error) {
	return o.did("resume %s by %s: %s", job, by.Name, by.Reason)
}

func (o *recorded) Run(_ context.Context, job string, by By) (Done, error) {
	return o.did("run %s by %s: %s", job, by.Name, by.Reason)
}

// usersFile has people with their passwords.
func usersFile(t testing.TB, people map[string]string) string {
	t.Helper()
	var text strings.Builder
	for name, password := range people {
		fmt.Fprintf(&text, "%s:%s\n", name, hashOf(t, password))
	}
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

func usersOf(t testing.TB, people map[string]string) *Users {
	t.Helper()
	users, err := LoadUsers(usersFile(t, people), nil, nil)
	require.NoError(t, err)
	return users
}

var hashes sync.Map // by password: with the race detector each takes as long as a test

func hashOf(t testing.TB, password string) string {
	t.Helper()
	if hash, ok := hashes.Load(password); ok {
		return hash.(string)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	hashes.Store(password, string(hash))
	return string(hash)
}

func newConsole(t testing.TB, o Options) *Console {
	t.Helper()
	if o.Board == nil {
		o.Board = busyBoard(noon)
	}
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	if o.Facts.Jobs == nil {
		o.Facts = busyFacts(noon)
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ask sends one request to a console.
func ask(t testing.TB, c *Console, method, target, body string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9480"
	r.RemoteAddr = "127.0.0.1:5555"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w.Result()
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return string(data)
}

func as(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func asJSON(r *http.Request) { r.Header.Set("Content-Type", "application/json") }

func sorted(s live.Snapshot) live.Snapshot {
	slices.SortFunc(s.Locks, func(a, b live.Lock) int { return strings.Compare(a.Scope, b.Scope) })
	return s
}
