package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// crowded is a cluster of locks that have so many holders and waiters each.
func crowded(locks, holders, waiters int) *scripted {
	s := live.Snapshot{At: noon, Complete: true}
	for i := range locks {
		state := lock.State{Scope: fmt.Sprintf("lock/%03d", i), At: noon}
		for j := range holders {
			state.Holders = append(state.Holders, lock.Contender{ID: fmt.Sprintf("h%d.%d", i, j), Identity: priority.Identity{Owner: "reader"}})
		}
		for j := range waiters {
			state.Waiters = append(state.Waiters, lock.Contender{ID: fmt.Sprintf("w%d.%d", i, j), Identity: priority.Identity{Owner: "writer"}, Position: j + 1})
		}
		s.Locks = append(s.Locks, live.NewLock(state))
	}
	return newScripted(s)
}

// fetched is what the API answers.
func fetched[T any](t *testing.T, c *Console, target string) (v T) {
	t.Helper()
	answer := ask(t, c, http.MethodGet, target, "")
	got := text(t, answer)
	require.Equal(t, http.StatusOK, answer.StatusCode, got)
	require.NoError(t, json.Unmarshal([]byte(got), &v))
	return v
}

func TestAPIListsSomeOfEachQueueAndSaysHowManyAreLeftOut(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Board: crowded(3, 12, 150)})
	for _, l := range fetched[locksPage](t, c, "/api/v1/locks").Locks {
		require.Len(t, l.Holders, 10)
		require.Equal(t, []int{12, 2, 150, 149}, []int{l.HolderCount, l.HoldersMore, l.WaiterCount, l.WaitersMore})
		require.Len(t, l.Waiters, 1)
		require.Equal(t, 1, l.Waiters[0].Position)
	}
	for _, l := range fetched[locksPage](t, c, "/api/v1/locks?waiters=1000&holders=0").Locks {
		require.Empty(t, l.Holders)
		require.Len(t, l.Waiters, 150)
		require.Equal(t, []int{12, 12, 150, 0}, []int{l.HolderCount, l.HoldersMore, l.WaiterCount, l.WaitersMore})
	}

	// one lock, page by page
	var places []int
	for from := 0; len(places) < 150; {
		l := fetched[lockAnswer](t, c, fmt.Sprintf("/api/v1/locks/lock/001?waiters=40&holders=5&offset=%d", from)).Lock
		require.Len(t, l.Holders, 5)
		require.Equal(t, 7, l.HoldersMore)
		require.Equal(t, 150, l.WaiterCount)
		for _, w := range l.Waiters {
			places = append(places, w.Position)
		}
		from += len(l.Waiters)
		require.Equal(t, 150-from, l.WaitersMore)
		require.NotEmpty(t, l.Waiters)
	}
	require.Len(t, places, 150)
	for i, p := range places {
		require.Equal(t, i+1, p)
	}
	l := fetched[lockAnswer](t, c, "/api/v1/locks/lock/001").Lock
	require.Len(t, l.Waiters, 100)
	require.Equal(t, 50, l.WaitersMore)
	past := fetched[lockAnswer](t, c, "/api/v1/locks/lock/001?offset=1000000").Lock
	require.Empty(t, past.Waiters)
	require.Zero(t, past.WaitersMore)
}

func TestAPIAnswerListsSoManyRequestsAndNoMore(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{Board: crowded(100, 20, 90)})
	page := fetched[locksPage](t, c, "/api/v1/locks?waiters=1000&holders=1000")
	require.Len(t, page.Locks, 100, "all locks are there, whatever is listed of them")
	all := 0
	for _, l := range page.Locks {
		all += len(l.Holders) + len(l.Waiters)
		require.Equal(t, 20, len(l.Holders)+l.HoldersMore)
		require.Equal(t, 90, len(l.Waiters)+l.WaitersMore)
	}
	require.Equal(t, maxListed, all)
	require.Len(t, page.Locks[0].Waiters, 90)
	require.Empty(t, page.Locks[99].Waiters)
}

func TestGraphOfTheAPIIsAsLargeAsOneSays(t *testing.T) {
	t.Parallel()
	s := live.Snapshot{At: noon, Complete: true}
	for i := range 900 {
		s.Waits.Nodes = append(s.Waits.Nodes, live.GraphNode{ID: fmt.Sprint(i), Scope: fmt.Sprint(i / 10)})
	}
	s.Waits.Hidden = 7
	c := newConsole(t, Options{Board: newScripted(s)})
	for target, want := range map[string]int{"/api/v1/waits": 200, "/api/v1/waits?limit=10": 10, "/api/v1/waits?limit=1000": 900} {
		g := fetched[waitsAnswer](t, c, target).Waits
		require.Len(t, g.Nodes, want, target)
		require.Equal(t, 907-want, g.Hidden, target)
	}
}

func noAudit(context.Context, opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
	return nil, nil, nil
}

// Where there is nothing, lists are empty: the schema has no null for them.
func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	board := newScripted(live.Snapshot{At: noon, Locks: []live.Lock{{Scope: "cluster/orders/resource/users"}}})
	unplanned := group.State{Spec: group.Spec{Name: "x"}, Locks: []group.Lock{{Lock: "a"}}}
	c := newConsole(t, Options{Board: board, Facts: Facts{
		Approvals: answering(views.NewApproval(opstore.Approval{})),
		Audit:     noAudit,
		Groups:    answering(views.NewGroup(group.State{}), views.NewGroup(unplanned)),
		Job: func(context.Context, string) (views.JobDetail, error) {
			return views.JobDetail{Job: views.NewJob(ticks.State{}, nil, noon)}, nil
		},
		Jobs:      answering(views.NewJob(ticks.State{}, nil, noon)),
		Overrides: answering[views.Override](),
	}})
	none := newConsole(t, Options{Board: newScripted(live.Snapshot{At: noon}), Facts: Facts{
		Approvals: answering[views.Approval](), Audit: noAudit, Groups: answering[views.Group](), Jobs: answering[views.Job](), Overrides: answering[views.Override](),
	}})
	compiler := strict(t)
	asked := 0
	for _, r := range c.routes() {
		if r.method != http.MethodGet || r.path == "/api/v1/openapi.json" {
			continue
		}
		target := strings.NewReplacer("{scope}", "cluster%2Forders%2Fresource%2Fusers", "{name}", "x").Replace(r.path)
		schema := answerSchema(t, compiler, r)
		for _, c := range []*Console{c, none} {
			if c == none && strings.Contains(r.path, "{name}") {
				continue // there is none
			}
			answer := ask(t, c, http.MethodGet, target, "")
			got := text(t, answer)
			require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", target, got)
			is, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
			require.NoError(t, err)
			require.NoError(t, schema.Validate(is), "%s: %s", target, got)
			asked++
		}
	}
	require.Greater(t, asked, 20)
}
