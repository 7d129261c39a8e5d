package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// someOverrides are, at noon: two that operators have posted, and one of the file.
func someOverrides() (file []override.Override, posted []opstore.PostedOverride) {
	freeze := override.Override{
		ID: "INC-4411", Kind: override.Freeze, Match: override.Match{Scope: "db/*", PriorityBelow: new(priority.Level(80))},
		Until: at(92 * time.Minute), By: "ana", Reason: "the disk of the database is full, and every batch job makes it worse",
	}
	boost := override.Override{
		ID: "INC-4412", Kind: override.Boost, Match: override.Match{Job: "hotfix-*", Labels: map[string]string{"team": "payments"}},
		Until: at(30 * time.Hour), By: "ben", Reason: "payments are stuck", Priority: new(priority.Emergency), Forceful: new(true), WaitingTimeout: new(30 * time.Second),
	}
	pause := override.Override{
		ID: "release", Kind: override.Pause, Match: override.Match{Job: "nightly-*"}, Until: at(20 * time.Minute), By: "release-bot", Reason: "release 7",
	}
	was := pause
	was.ID, was.Until = "over", at(-time.Minute)
	older := freeze
	older.Reason = "as the file has it"
	return []override.Override{older, pause, was}, []opstore.PostedOverride{
		{Override: boost, PostedBy: "digest:ben", PostedAt: at(-time.Hour)},
		{Override: freeze, PostedBy: "x509:CN=ana,O=example", PostedAt: at(-3 * time.Minute)},
	}
}

func TestOverridesInForceAreListed(t *testing.T) {
	file, posted := someOverrides()
	all := inForce(file, posted, at(0))
	draw := func(wide bool) func(pg page) {
		return func(pg page) {
			pg.wide = wide
			writeOverrides(pg, all, at(0))
		}
	}
	require.Equal(t, `
ID        UNTIL                     OVERRIDE
INC-4411  13:32:00 (in 1h32m)       freeze db/* below 80; by ana (zookeeper):
                                      the disk of the database is full, and
                                      every batch job makes it worse
INC-4412  11-22 18:00:00 (in 1d6h)  boost job hotfix-* team=payments: priority
                                      emergency, forceful, waiting 30s; by ben
                                      (zookeeper): payments are stuck
release   12:20:00 (in 20m)         pause job nightly-*; by release-bot
                                      (file): release 7
`, "\n"+drawn(80, draw(false)))
	require.Equal(t, `
ID        KIND    MATCH                       WHAT                                    UNTIL                     BY           SOURCE     REASON
INC-4411  freeze  db/* below 80               -                                       13:32:00 (in 1h32m)       ana          zookeeper  the disk of the
                                                                                                                                          database is full, and
                                                                                                                                          every batch job makes
                                                                                                                                          it worse
INC-4412  boost   job hotfix-* team=payments  priority emergency, forceful,           11-22 18:00:00 (in 1d6h)  ben          zookeeper  payments are stuck
                                                waiting 30s
release   pause   job nightly-*               -                                       12:20:00 (in 20m)         release-bot  file       release 7
`, "\n"+drawn(160, draw(false)))
	require.Equal(t, `
ID        KIND    MATCH            WHAT              UNTIL                     BY           SOURCE     POSTED BY              POSTED    REASON
INC-4411  freeze  db/* below 80    -                 13:32:00 (in 1h32m)       ana          zookeeper  x509:CN=ana,O=example  11:57:00  the disk of the
                                                                                                                                          database is full, and
                                                                                                                                          every batch job makes
                                                                                                                                          it worse
INC-4412  boost   job hotfix-*     priority          11-22 18:00:00 (in 1d6h)  ben          zookeeper  digest:ben             11:00:00  payments are stuck
                    team=payments    emergency,
                                     forceful,
                                     waiting 30s
release   pause   job nightly-*    -                 12:20:00 (in 20m)         release-bot  file       -                      -         release 7
`, "\n"+drawn(160, draw(true)))
}

func TestOverridesAsJSON(t *testing.T) {
	file, posted := someOverrides()
	all := inForce(file, posted, at(0))
	var listed []views.Override
	for _, a := range all {
		listed = append(listed, newOverrideView(a, nil, []views.JobLabels{{Name: "nightly-backup"}, {Name: "hourly"}}, at(0)))
	}
	text, err := json.MarshalIndent(listed[1:], "", "  ")
	require.NoError(t, err)
	require.JSONEq(t, `
[
  {
    "id": "INC-4412",
    "kind": "boost",
    "match": {
      "job": "hotfix-*",
      "labels": {
        "team": "payments"
      }
    },
    "until": "2026-11-22T18:00:00Z",
    "by": "ben",
    "reason": "payments are stuck",
    "priority": "emergency",
    "forceful": true,
    "waiting_timeout_ms": 30000,
    "source": "zookeeper",
    "posted_by": "digest:ben",
    "posted_at": "2026-11-21T11:00:00Z",
    "left_ms": 108000000,
    "keeps_out": []
  },
  {
    "id": "release",
    "kind": "pause",
    "match": {
      "job": "nightly-*"
    },
    "until": "2026-11-21T12:20:00Z",
    "by": "release-bot",
    "reason": "release 7",
    "source": "file",
    "left_ms": 1200000,
    "keeps_out": [{"state": "paused", "owner": "nightly-backup", "since": null}]
  }
]
`, "\n"+string(text)+"\n")
	require.Equal(t, emergency.File, all[2].Source)
}

// somePlaces are locks that overrides may meet.
func somePlaces() []lock.State {
	holder := lock.Contender{
		ID: "1", Identity: priority.Identity{Owner: "backup", Host: "db1", PID: 41}, Terms: priority.Terms{Priority: 10, CleanupTimeout: 30 * time.Second, LeaseTimeout: time.Hour}, Token: 77,
	}
	low := lock.Contender{ID: "2", Identity: priority.Identity{Owner: "report", Host: "db2", PID: 42}, Terms: priority.Terms{Priority: 5}, Position: 1}
	high := lock.Contender{ID: "3", Identity: priority.Identity{Owner: "hotfix-7", Host: "db3", PID: 43}, Terms: priority.Terms{Priority: 90}, Position: 2}
	return []lock.State{
		{Scope: "cluster/orders", Holders: []lock.Contender{{ID: "9", Identity: priority.Identity{Owner: "rollup", Host: "db1", PID: 44}, Token: 70}}},
		{Scope: "db/orders", Holders: []lock.Contender{holder}, Waiters: []lock.Contender{high, low}},
	}
}

func TestWhomOverridesMeetIsShown(t *testing.T) {
	jobs := jobsThatAre(
		&config.Config{Jobs: []jobs.Job{{Name: "nightly-a"}, {Name: "hotfix-7", Labels: map[string]string{"team": "payments"}}}},
		[]ticks.State{{Job: "nightly-b"}, {Job: "hourly"}, {Job: "nightly-a"}},
	)
	file, posted := someOverrides()
	hold := override.Override{
		ID: "INC-4413", Kind: override.Hold, Match: override.Match{Scope: "db/orders"}, Until: at(time.Hour), By: "ana", Reason: "repair by hand",
		WaitingTimeout: new(10 * time.Second),
	}
	now, other := hold, hold
	now.ID, now.Kind, now.WaitingTimeout, now.Token = "INC-4414", override.PreemptNow, nil, 76
	other.ID, other.Match.Scope = "INC-4415", "db/unused"
	var applied []appliedView
	for _, o := range []override.Override{posted[1].Override, posted[0].Override, hold, now, file[1], other} {
		applied = append(applied, appliedView{Record: o.Record(), Applied: true, Concerns: concernsOf(o, somePlaces(), nil, jobs)})
	}
	applied[0].Was = &file[0]
	require.Equal(t, `
freeze db/* below 80 until 13:32 UTC by ana: the disk of the database is full,
and every batch job makes it worse (INC-4411)
  it takes the place of another one with this ID: freeze db/* below 80 until
  13:32 UTC by ana: as the file has it (INC-4411)
  right now it meets
    waiter  db/orders  report (priority 5, db2)  leaves the queue until it is
                                                   over

boost job hotfix-* team=payments to emergency, forceful, waiting 30s until
2026-11-22 18:00 UTC by ben: payments are stuck (INC-4412)
  right now it meets
    waiter  db/orders  hotfix-7 (priority 90, db3)  becomes priority
                                                      emergency, forceful,
                                                      waiting 30s

hold db/orders, waiting 10s until 13:00 UTC by ana: repair by hand (INC-4413)
  right now it meets
    holder  db/orders  backup (priority 10, db1)  is preempted, and evicted
                                                    after 10s

preempt-now db/orders with token 76 until 13:00 UTC by ana: repair by hand
(INC-4414)
  right now it meets
    holder  db/orders  backup (priority 10, db1)  is left alone: its token is 77

pause job nightly-* until 12:20 UTC by release-bot: release 7 (release)
  right now it meets
    job  -  nightly-a  its ticks are skipped
    job  -  nightly-b  its ticks are skipped

hold db/unused, waiting 10s until 13:00 UTC by ana: repair by hand (INC-4415)
  right now it meets nothing

nothing was applied: --dry-run
`, "\n"+drawn(80, func(pg page) { writeConcerns(pg, applied, at(0), true) }))
	require.Equal(t, `
freeze db/* below 80 until 13:32 UTC by ana: the disk of the database is full, and every batch job makes it worse (INC-4411)
  it takes the place of another one with this ID: freeze db/* below 80 until 13:32 UTC by ana: as the file has it (INC-4411)
  right now it meets
    waiter  db/orders  report (priority 5, db2)  leaves the queue until it is over
`, "\n"+drawn(160, func(pg page) { writeConcerns(pg, applied[:1], at(0), false) }))
	require.Equal(t, `
INC-4411: in force until 2026-11-21 13:32:00 UTC, in 1h32m
  before it was freeze db/* below 80 until 13:32 UTC by ana: as the file has it
  (INC-4411)
INC-4412: in force until 2026-11-22 18:00:00 UTC, in 1d6h
INC-4413: in force until 2026-11-21 13:00:00 UTC, in 1h
  one of the daemons carries it out; see lockkeeper locks show db/orders
`, "\n"+drawn(80, func(pg page) { writeApplied(pg, applied[:3], at(0)) }))
}

// A request that is frozen is in no queue: what lifts it, or keeps it out longer, meets it all the same.
func TestOverridesMeetFrozenRequests(t *testing.T) {
	frozen := []lock.FrozenRequest{
		{Scope: "db/orders", Identity: priority.Identity{Owner: "report", Host: "db2"}, Job: "report", Priority: 5, Override: lock.Mark{ID: "INC-1"}},
		{Scope: "web/cache", Identity: priority.Identity{Owner: "warm", Host: "db2"}, Job: "warm", Priority: 5, Override: lock.Mark{ID: "INC-1"}},
	}
	match := override.Match{Scope: "db/*"}
	for want, o := range map[string]override.Override{
		"stays out of the queue until it is over":            {Kind: override.Freeze, Match: match},
		"becomes priority emergency; INC-1 keeps it out now": {Kind: override.Boost, Match: match, Priority: new(priority.Emergency)},
		"": {Kind: override.Freeze, Match: override.Match{Scope: "db/*", PriorityAbove: new(priority.Level(7))}},
	} {
		var met []string
		for _, c := range concernsOf(o, nil, frozen, nil) {
			met = append(met, c.State+" "+c.Owner+" "+c.What)
		}
		if want == "" {
			require.Empty(t, met)
			continue
		}
		require.Equal(t, []string{"frozen report " + want}, met)
	}
	require.Empty(t, concernsOf(override.Override{Kind: override.Hold, Match: override.Match{Scope: "db/orders"}}, nil, frozen, nil))
}

func someApprovals() []opstore.Approval {
	request := opstore.ApprovalRequest{
		Scope: "cluster/orders/resource/users", Job: "critical", Requestor: opstore.AuditParty{Owner: "critical", Priority: 80},
		Holders: []opstore.AuditParty{{Owner: "compaction", Host: "db1", PID: 41, Priority: 10, Token: 77}}, Reason: "payments",
		Waited: time.Minute, Deadline: 15 * time.Minute,
	}
	decided := request
	decided.Scope, decided.Holders = "db/users", append(decided.Holders, opstore.AuditParty{Owner: "backup", Priority: 5})
	board := []opstore.Approval{
		{ID: "a-0000000012", ApprovalRequest: request, By: "digest:daemons", Host: "h1", PID: 9, Opened: at(-2 * time.Minute), Until: at(13 * time.Minute)},
		{
			ID: "a-0000000013", ApprovalRequest: decided, By: "digest:daemons", Host: "h1", PID: 9, Opened: at(-3 * time.Second), Until: at(14 * time.Minute),
			Decision: &opstore.Decision{Approved: true, By: "ana", Reason: "payments are stuck", Identity: "digest:ana", At: at(-time.Second)},
		},
	}
	return board
}

func TestApprovalThatIsAskedInAWorkflowSaysWhoWasTold(t *testing.T) {
	asked := someApprovals()[:1]
	asked[0].ID, asked[0].Workflow = "w-3f29c1d07ab41122", true
	asked[0].Escalated = []opstore.Escalated{{At: at(-time.Minute), To: "on-call"}}
	require.Equal(t, `
w-3f29c1d07ab41122  open until 2026-11-21 12:13:00 UTC, in 13m; then the request fails
  scope    cluster/orders/resource/users
  request  critical (priority 80); it has waited for 3m, and is asked for by host h1, pid 9
  why      payments
  holder   compaction (priority 10), host db1, pid 41, token 77: has not finished its cleanup
  told     on-call, after 1m
`, "\n"+drawn(160, func(pg page) { writeApprovals(pg, asked, at(0)) }))
	view := views.NewApproval(asked[0])
	require.Equal(t, "workflow", view.Kind)
	require.Equal(t, []opstore.Escalated{{At: at(-time.Minute), To: "on-call"}}, view.Escalated)
	require.Equal(t, "board", views.NewApproval(someApprovals()[1]).Kind)
}

func TestApprovalsAreListed(t *testing.T) {
	require.Equal(t, `
a-0000000012  open until 2026-11-21 12:13:00 UTC, in 13m; then the request fails
  scope    cluster/orders/resource/users
  request  critical (priority 80); it has waited for 3m, and is asked for by
           host h1, pid 9
  why      payments
  holder   compaction (priority 10), host db1, pid 41, token 77: has not
           finished its cleanup

a-0000000013  approved by ana: payments are stuck
  scope    db/users
  request  critical (priority 80); it has waited for 1m3s, and is asked for by
           host h1, pid 9
  why      payments
  holder   compaction (priority 10), host db1, pid 41, token 77: has not
           finished its cleanup
  holder   backup (priority 5), host , pid 0, token 0: has not finished its
           cleanup
`, "\n"+drawn(80, func(pg page) { writeApprovals(pg, someApprovals(), at(0)) }))
}
