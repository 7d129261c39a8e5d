package foreign

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

const newer = `{"format":9,"job":{"name":"x"},"holders":7}`

// A record in the node of a job, a group or a trail concerns only that one: it
// is reported by name, and never overwritten.
func TestRecordsThatCannotBeReadAreNamedAndKept(t *testing.T) {
	for what, data := range map[string]string{"garbage": "\x00{", "newer": newer, "another type": `[1]`, "no format": `{}`} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			c := h.Client()
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			defer cancel()
			ledger := c.TickLedger("daemon")
			trail, err := c.AuditLog(0)
			require.NoError(t, err)
			spec := group.Spec{Name: "g", Locks: []string{"a"}}
			g, err := group.New(c.Client, spec)
			require.NoError(t, err)
			tick := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
			for node, use := range map[string]func() error{
				h.Root + "/ticks/backup": func() error {
					_, err := ledger.Claim(ctx, "backup", tick, ticks.Ask{})
					return err
				},
				h.Root + "/ticks/report": func() error {
					_, err := ledger.State(ctx, "report")
					return err
				},
				h.Root + "/audit": func() error {
					_, err := trail.Append(ctx, opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditIntent, By: "ana"})
					return err
				},
				h.Root + "/groups/g": func() error {
					_, err := g.Apply(ctx)
					return err
				},
			} {
				h.put(node, data, 0, world)
				err := use()
				var bad *lock.RecordError
				require.ErrorAs(t, err, &bad, node)
				require.Equal(t, node, bad.Node)
				require.Equal(t, what == "newer", bad.Format == 9)
				require.ErrorContains(t, err, node)
				got, stat := h.read(node)
				require.Equal(t, data, got)
				require.Zero(t, stat.Version)
			}
			// and other jobs and groups go on
			claim, err := ledger.Claim(ctx, "other", tick, ticks.Ask{})
			require.NoError(t, err)
			require.Equal(t, ticks.Claimed, claim.Verdict)
			_, err = ledger.Finish(ctx, claim.Run, ticks.End{Outcome: ticks.Ran})
			require.NoError(t, err)
			spec.Name = "other"
			g, err = group.New(c.Client, spec)
			require.NoError(t, err)
			_, err = g.Apply(ctx)
			require.NoError(t, err)
		})
	}
}

func TestForeignRunsAndRequestsOfAJobAreIgnored(t *testing.T) {
	h := newFixture(t)
	ledger := h.Client().TickLedger("daemon")
	tick := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	_, err := ledger.RecordSkip(t.Context(), "backup", "first", tick.Add(-time.Hour))
	require.NoError(t, err)
	for name, data := range map[string]string{"run-" + guid(1): "x", "run-": "", "x": "y", "größe": ""} {
		h.put(h.Root+"/ticks/backup/"+name, data, 0, world)
	}
	h.put(h.Root+"/ticks/a%2", "x", 0, world)
	for name, data := range map[string]string{guid(1): "garbage", guid(2): newer, "x": "", guid(3): `{"format":1,"job":7}`} {
		h.put(h.Root+"/requests/"+name, data, 0, world)
	}
	h.put(h.Root+"/requests/"+guid(4), `{"format":1,"job":"backup"}`, 0, zk.DigestACL(zk.PermAll, "ann", "x"))

	asked, err := ledger.Request(t.Context(), ticks.Request{Job: "backup", By: "ana"})
	require.NoError(t, err)
	standing, err := ledger.AwaitRequests(t.Context(), ticks.Requests{})
	require.NoError(t, err)
	requests := h.Root + "/requests/"
	require.Equal(t, []string{requests + guid(1), requests + guid(2), requests + guid(3), requests + guid(4), requests + "x"}, paths(standing.Unreadable))
	var found bool
	for _, r := range standing.Standing {
		found = found || r.ID == asked.ID()
	}
	require.True(t, found)
	claim, err := ledger.Claim(t.Context(), "backup", tick, ticks.Ask{})
	require.NoError(t, err)
	require.Equal(t, ticks.Claimed, claim.Verdict)
	_, err = ledger.Finish(t.Context(), claim.Run, ticks.End{Outcome: ticks.Ran})
	require.NoError(t, err)
	states, left, err := ledger.States(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 1)
	require.Equal(t, []string{h.Root + "/ticks/a%2"}, paths(left))
}

// Participants that no session keeps, or that say nothing, hold nothing up.
func TestForeignParticipantsOfAGroupHoldNothingUp(t *testing.T) {
	h := newFixture(t)
	c := h.Client()
	spread, err := group.New(c.Client, group.Spec{Name: "g", Locks: []string{"a", "b"}})
	require.NoError(t, err)
	_, err = spread.Apply(t.Context())
	require.NoError(t, err)
	members := h.Root + "/groups/g/members/"
	h.put(members+"ghost-"+guid(1)+"-0000000000", `{"format":1,"name":"ghost"}`, 0, world)
	h.put(members+"me-"+guid(2)+"--000000001", `{"format":1,"name":"me"}`, 0, world)
	h.put(members+"x", "garbage", zk.FlagEphemeral, world)
	h.put(members+"ghost-"+guid(3)+"-1", "", 0, world)
	h.put(h.Root+"/groups/g/x", "garbage", 0, world)
	h.put(h.Root+"/groups/%", "garbage", 0, world)

	held := make(chan string, 10)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	member, err := spread.Join(ctx, "me", handler(func(ctx context.Context, grant group.LockGrant) {
		held <- grant.Lock
		<-ctx.Done()
	}))
	require.NoError(t, err)
	var locks []string
	for range 2 {
		select {
		case lock := <-held:
			locks = append(locks, lock)
		case <-ctx.Done():
			require.FailNow(t, "the only participant that lives does not hold all locks", "%q", locks)
		}
	}
	require.ElementsMatch(t, []string{"a", "b"}, locks)
	states, left, err := group.All(ctx, c.Client)
	require.NoError(t, err)
	require.Len(t, states, 1)
	require.Len(t, states[0].Members, 1)
	require.Equal(t, []string{
		h.Root + "/groups/%", members + "ghost-" + guid(1) + "-0000000000", members + "ghost-" + guid(3) + "-1",
		members + "me-" + guid(2) + "--000000001", members + "x",
	}, paths(left))
	require.NoError(t, member.Leave(ctx))
}

// All that does not belong where it is is found by the survey, which doctor
// tells.
func TestSurveyNamesWhatDoesNotBelong(t *testing.T) {
	h := newFixture(t)
	strangers := []string{
		"/clock/child", "/approvals/a-x", "/audit/x", "/audit/log/1", "/groups/%", "/groups/g/x", "/groups/g/members/x", "/groups/g/members/m-" + guid(1) + "-1", "/locks/zz", "/locks/ab/a%2", "/ticks/a%2",
		"/ticks/job/x", "/overrides/x", "/emergency/x", "/whatever", "/" + scope,
		strings.TrimPrefix(h.node(), h.Root) + "/x", strings.TrimPrefix(h.node(), h.Root) + "/" + request(5, 5),
	}
	for _, path := range strangers {
		h.put(h.Root+path, "", 0, world)
	}
	below, err := survey.Take(t.Context(), h.Client().Client, survey.Options{})
	require.NoError(t, err)
	var found []string
	for _, s := range below.Strangers {
		require.NotEmpty(t, s.Why)
		found = append(found, strings.TrimPrefix(s.Path, h.Root))
	}
	require.ElementsMatch(t, strangers, found)
	h.works()
}

// A handler is called with the lock that it holds.
type handler func(ctx context.Context, grant group.LockGrant)

func (f handler) OnLocked(ctx context.Context, grant group.LockGrant) { f(ctx, grant) }
func (handler) OnReleased(context.Context, string)                    {}
func (handler) OnDropped(context.Context, string)                     {}
