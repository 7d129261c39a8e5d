package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// long is a name without a place to break it, as long as recipes take it, or longer
// than a telephone is wide.
var long = strings.Repeat("Wörterbuch_ungebrochen.", 10)

const evil = "</td><script>alert(1)</script>\u202e\"'&<b>"

// A stage is a Board's source on which all is as a test has set it.
type stage []lock.Sighting

func (s stage) Run(ctx context.Context, seen func(lock.Sighting)) error {
	for _, one := range s {
		seen(one)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// strangers have unusual names, hold locks, and wait for them.
func strangers() (stage, string) {
	now := time.Now()
	someone := func(id, owner string) lock.Contender {
		return lock.Contender{
			ID: id, Identity: priority.Identity{Owner: owner, Host: "host-" + long, PID: 1 << 22, Message: evil + long, Class: long}, Terms: priority.Terms{
				Priority: 1 << 20, LeaseTimeout: time.Hour, CleanupTimeout: time.Minute,
				Mode: priority.Exclusive,
			},
			Joined: now.Add(-400 * time.Hour),
		}
	}
	var all stage
	scope := "tenant/" + long + "/" + evil
	for i, name := range []string{scope, "shelf/a-" + long, "shelf/b-" + long} {
		l := lock.State{Scope: name, At: now}
		h := someone(fmt.Sprintf("h%d", i), "owner-"+long)
		h.Token, h.Since, h.LeaseLeft = lock.Token(1<<62+i), now.Add(-300*time.Hour), -time.Hour
		l.Holders = []lock.Contender{h}
		for j := range 3 {
			w := someone(fmt.Sprintf("w%d-%d", i, j), evil+long)
			w.Position = j + 1
			l.Waiters = append(l.Waiters, w)
		}
		all = append(all, lock.Sighting{State: l})
	}
	damaged := lock.State{Scope: "damaged/" + long, At: now, Damage: evil + long}
	return append(all, lock.Sighting{State: damaged}, lock.Sighting{Synced: true}), scope
}

// strange are facts of strangers.
func strange(scope string) console.Facts {
	now := time.Now()
	party := opstore.AuditParty{ID: "1", Owner: "owner-" + long, Host: long, PID: 1 << 22, Priority: 1 << 20, Token: 1 << 62}
	job := views.Job{Name: "job-" + long, Locks: []string{scope}, State: "paused", Schedule: new("*/5 * * * *"), Timezone: new(long), Failures: 1_000_000, Paused: &views.Pause{By: long, Reason: evil + long}}
	return console.Facts{
		Approvals: answering(nil, views.NewApproval(opstore.Approval{
			ID: "a-" + long, ApprovalRequest: opstore.ApprovalRequest{Scope: scope, Reason: evil + long, Requestor: party, Holders: []opstore.AuditParty{party}, Deadline: time.Hour},
		})),
		Audit: func(context.Context, opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
			return []opstore.AuditRecord{{
				Seq: 1 << 40, At: now, Identity: "digest:" + long, AuditEntry: opstore.AuditEntry{
					By: long, Action: opstore.AuditBreak, Phase: opstore.AuditOutcome, Result: opstore.AuditFailed,
					Scope: scope, Reason: evil + long, Victims: []opstore.AuditParty{party}, Error: long,
				},
			}}, nil, nil
		},
		Groups: answering(nil, views.Group{
			Name: "group-" + long, Strategy: long, Controller: new(long), StrategyError: long,
			Members: []views.GroupMember{{Name: long, Host: long, State: "joined"}},
			Locks:   []views.GroupLock{{Lock: long, State: "LOCKED", Holders: []views.GroupHolder{{Name: long}}, Planned: []string{long, long}}},
		}),
		Job:  func(context.Context, string) (views.JobDetail, error) { return views.JobDetail{Job: job}, nil },
		Jobs: answering(nil, job),
		Overrides: answering(nil, views.Override{Record: override.Override{
			ID: "INC-" + long, Kind: override.Freeze, Match: override.Match{Scope: scope}, Until: now.Add(time.Hour), By: long, Reason: evil + long,
		}.Record()}),
	}
}

// nothing are facts of an empty cluster.
func nothing() console.Facts {
	return without(nil, &console.NotKnownError{What: "there is no such job"})
}

// silent are facts that ZooKeeper does not tell.
func silent() console.Facts {
	err := errors.New("no server answers: dial tcp 10.0.0.1:2181: connect: connection refused, " + long)
	return without(err, err)
}

// without are facts that have nothing, but errors.
func without(err, ofJob error) console.Facts {
	return console.Facts{
		Approvals: answering[views.Approval](err),
		Audit: func(context.Context, opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
			return nil, nil, err
		},
		Groups:    answering[views.Group](err),
		Job:       func(context.Context, string) (views.JobDetail, error) { return views.JobDetail{}, ofJob },
		Jobs:      answering[views.Job](err),
		Overrides: answering[views.Override](err),
	}
}

func answering[T any](err error, all ...T) func(context.Context) ([]T, []lock.Unreadable, error) {
	return func(context.Context) ([]T, []lock.Unreadable, error) { return all, nil, err }
}

// TestPagesInEveryState checks with inspect.js pages that are empty, crowded, or
// full of unusual names, and those that refuse a request.
func TestPagesInEveryState(t *testing.T) {
	t.Parallel()
	all, scope := strangers()
	empty := stage{{Synced: true}}
	away := lock.Sighting{Blind: &lock.Blindness{Since: time.Now().Add(-4 * time.Minute), Err: errors.New("no answer from 10.0.0.1:2181, " + long)}}
	for _, s := range []struct {
		name  string
		board live.Source
		facts console.Facts
		scope string
	}{
		{"empty", empty, nothing(), "never/heard/of"},
		{"unseen", stage{}, console.Facts{}, "never/heard/of"},
		{"blind", append(slices.Clip(all), away), silent(), scope},
		{"strange", all, strange(scope), scope},
		{"crowd", newCrowd(), nothing(), crowdScope(0)},
	} {
		t.Run(s.name, func(t *testing.T) {
			board, err := live.New(live.Options{Source: s.board, Now: time.Now})
			require.NoError(t, err)
			harness.Run(t, "the board", board.Run)
			if c, ok := s.board.(stage); ok && len(c) > 0 {
				harness.Eventually(t, func() bool { return board.Now().Complete || board.Now().Blind != nil }, "the board has looked")
				harness.Eventually(t, func() bool { return s.name != "blind" || board.Now().Blind != nil }, "the board is blind")
			}
			if s.name == "crowd" {
				harness.Eventually(t, func() bool { return board.Now().Complete }, "the board has looked")
			}
			b := open(t, serve(t, console.Options{Board: board, Facts: s.facts, Name: "the-cluster-" + long}))
			for _, status := range []string{"400", "403", "404", "422", "500", "503"} {
				b.allow("status of " + status)
			}
			path := (&url.URL{Path: "/locks/" + s.scope}).EscapedPath()
			pages := []leaf{
				{"locks", "/"},
				{"locks-none", "/?q=" + url.QueryEscape(long)},
				{"lock", path},
				{"waits", "/waits"},
				{"heat", "/heat"},
				{"jobs", "/jobs"},
				{"job", "/jobs/" + url.PathEscape("job-"+long)},
				{"groups", "/groups"},
				{"group", "/groups/" + url.PathEscape("group-"+long)},
				{"overrides", "/overrides"},
				{"approvals", "/approvals"},
				{"audit", "/audit"},
				{"events", "/events"},
				{"sign-in", "/sign-in"},
				{"nothing", "/nothing/" + url.PathEscape(long)},
				{"wrong", "/?sort=" + url.QueryEscape(long)},
				{"not-a-lock", "/locks/" + url.PathEscape(long+"\x01")},
			}
			for _, p := range pages {
				b.visit(p.path)
				for _, screen := range screens {
					b.on(screen)
					for _, wrong := range ask[finding](b, inspect).Wrong {
						t.Errorf("%s, %s, %s: %s", s.name, p.name, screen, wrong)
					}
					keep(b, fmt.Sprintf("%s-%s-%s", s.name, p.name, screen))
				}
			}
		})
	}
}
