package console

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// goldenPage compares a page, without what is around all pages, with the file of its
// name.
func goldenPage(t *testing.T, name, page string) {
	t.Helper()
	_, body, ok := strings.Cut(page, "<main id=\"main\" tabindex=\"-1\">\n")
	require.True(t, ok, page)
	body, _, _ = strings.Cut(body, "</main>")
	golden(t, filepath.Join("testdata", name+".html"), body)
}

func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./observability/console -run %s -update writes it anew", t.Name())
}

func TestPagesAreAsTheyWereLookedAt(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	blind := busy(noon)
	blind.Blind = &live.Blind{Since: noon.Add(-4 * time.Minute), Reason: "no answer from 10.0.0.1:2181"}
	early := busy(noon)
	early.Complete = false
	empty := Options{Board: newScripted(live.Snapshot{At: noon, Complete: true})}
	signedIn := Options{Operator: &recorded{}, Users: users, Links: Links{Temporal: "https://temporal.test/workflows/{workflow_id}"}}
	orders := "/locks/cluster/orders/resource/users"
	for _, p := range []struct {
		name, target string
		o            Options
		in           bool
	}{
		{"locks", "/", Options{}, false},
		{"locks_filtered", "/?q=billing&state=waiting&sort=oldest", Options{}, false},
		{"locks_none", "/?q=nothing", Options{}, false},
		{"locks_empty", "/", empty, false},
		{"locks_blind", "/", Options{Board: newScripted(blind)}, false},
		{"locks_incomplete", "/", Options{Board: newScripted(early)}, false},
		{"locks_unseen", "/", Options{Board: newScripted(live.Snapshot{})}, false},
		{"lock", orders, Options{}, false},
		{"lock_traced", orders, Options{Links: Links{Trace: "https://traces.test/trace/{trace_id}"}}, false},
		{"lock_frozen", "/locks/archive/2026", Options{}, false},
		{"lock_unknown", "/locks/cluster/nothing", Options{}, false},
		{"lock_break", orders + "?do=break&token=7301444", signedIn, true},
		{"lock_preempt", orders + "?do=preempt&token=7301444", signedIn, true},
		{"lock_readonly", orders + "?do=break&token=7301444", Options{}, false},
		{"waits", "/waits", Options{}, false},
		{"heat", "/heat?range=1h", Options{}, false},
		{"jobs", "/jobs", Options{}, false},
		{"job", "/jobs/nightly-compaction", signedIn, true},
		{"job_frozen", "/jobs/mirror", Options{}, false},
		{"groups", "/groups", Options{}, false},
		{"group", "/groups/shards", Options{}, false},
		{"overrides", "/overrides", signedIn, true},
		{"overrides_apply", "/overrides?do=apply", signedIn, true},
		{"approvals", "/approvals", signedIn, true},
		{"audit", "/audit", Options{}, false},
		{"events", "/events?kind=trouble", Options{}, false},
		{"sign_in", "/sign-in", signedIn, false},
	} {
		t.Run(p.name, func(t *testing.T) {
			c := newConsole(t, p.o)
			var change []func(*http.Request)
			if p.in {
				change = append(change, as("ana", "secret"))
			}
			answer := ask(t, c, http.MethodGet, p.target, "", change...)
			page := text(t, answer)
			require.Equal(t, http.StatusOK, answer.StatusCode, page)
			goldenPage(t, p.name, page)
		})
	}
}

// all pages there are, for what is true of each of them.
var allPages = []string{
	"/", "/locks/cluster/orders/resource/users", "/locks/cluster/orders/resource/users?do=break&token=7301444", "/waits", "/heat", "/jobs", "/jobs/nightly-compaction",
	"/jobs/nightly-compaction?do=pause", "/groups", "/groups/shards", "/overrides", "/overrides?do=apply", "/overrides?do=clear&id=INC-4411", "/approvals",
	"/approvals?do=force&id=a-0000000012", "/audit", "/events", "/sign-in", "/nothing",
}

var (
	inline = regexp.MustCompile(`(?i)\s(on\w+|style|hx-on[^=]*)="|<style|<script(?: [^>]*)?>[^<]|javascript:`)
	ids    = regexp.MustCompile(` id="([^"]*)"`)
	labels = regexp.MustCompile(`<label[^>]* for="([^"]*)"`)
	fields = regexp.MustCompile(`<(?:input|select|textarea) [^>]*>`)
	fieldI = regexp.MustCompile(` id="([^"]*)"`)
)

func TestPagesHaveNothingInlineAndEveryFieldHasALabel(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	c := newConsole(t, Options{Operator: &recorded{}, Users: users})
	for _, target := range allPages {
		page := text(t, ask(t, c, http.MethodGet, target, "", as("ana", "secret")))
		require.NotRegexp(t, inline, page, target)
		seen := map[string]bool{}
		for _, id := range ids.FindAllStringSubmatch(page, -1) {
			require.False(t, seen[id[1]], "%s has the id %q twice", target, id[1])
			seen[id[1]] = true
		}
		labelled := map[string]bool{}
		for _, label := range labels.FindAllStringSubmatch(page, -1) {
			labelled[label[1]] = true
		}
		for _, field := range fields.FindAllString(page, -1) {
			if strings.Contains(field, `type="hidden"`) {
				continue
			}
			id := fieldI.FindStringSubmatch(field)
			require.NotNil(t, id, "%s: %s", target, field)
			require.True(t, labelled[id[1]], "%s: %s has no label", target, field)
		}
		require.Equal(t, 1, strings.Count(page, "<h1"), target)
	}
}

func TestTextsOfOthersAreOnlyText(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	s := busy(noon)
	for i := range s.Locks {
		l := &s.Locks[i]
		for j := range l.Holders {
			l.Holders[j].Owner, l.Holders[j].Message, l.Holders[j].Host = evil, evil, evil
		}
		for j := range l.Waiters {
			l.Waiters[j].Owner, l.Waiters[j].Why = evil, evil
		}
		l.Damage = evil
	}
	s.Locks = append(s.Locks, live.Lock{Scope: "z" + evil, State: "free"})
	c := newConsole(t, Options{Board: newScripted(s), Name: evil})
	for _, target := range []string{"/", "/locks/cluster/orders/resource/users", "/waits", "/?q=" + "%22%3E%3Cscript%3E", "/%22%3E%3Cscript%3Ealert(1)%3C/script%3E"} {
		page := text(t, ask(t, c, http.MethodGet, target, ""))
		require.NotContains(t, page, "<script>", target)
	}
}

func TestNamesWithSlashesAndDotsLeadToTheirPages(t *testing.T) {
	s := busy(noon)
	s.Locks = nil
	names := []string{"a", "a/b", "a/../b", "..", ".", "a b", "a%2Fb", "a?b#c", "ä", "x/timeline"}
	names = slices.DeleteFunc(names, func(name string) bool { _, err := lock.EscapeScope(name); return err != nil })
	require.Greater(t, len(names), 5)
	for _, name := range names {
		s.Locks = append(s.Locks, live.Lock{Scope: name, State: "free", Damage: "it is " + name})
	}
	c := newConsole(t, Options{Board: newScripted(sorted(s))})
	for _, name := range names {
		answer := ask(t, c, http.MethodGet, scopePath(name), "")
		page := text(t, answer)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%q at %s", name, scopePath(name))
		require.Contains(t, page, "Damaged", "%q at %s", name, scopePath(name))
	}
}

func TestJobOfTwoDefinitionsSaysWhoHasThem(t *testing.T) {
	facts := busyFacts(noon)
	job := facts.Job
	facts.Job = func(ctx context.Context, name string) (views.JobDetail, error) {
		j, err := job(ctx, name)
		j.Definitions = []views.Definition{{Fingerprint: "1-aa", Host: "h1", PID: 1, Seen: noon}, {Fingerprint: "1-bb", Host: "h2", PID: 2, Seen: noon}}
		return j, err
	}
	page := text(t, ask(t, newConsole(t, Options{Facts: facts}), http.MethodGet, "/jobs/nightly-compaction", ""))
	require.Contains(t, page, "Daemons have different definitions of this job")
	require.Contains(t, page, "h1, pid 1 (1-aa)")
	require.Contains(t, page, "h2, pid 2 (1-bb)")
}
