package temporal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A workflow goes on when its worker is replaced by one of another version, and
// others than this package send updates and read queries: what travels keeps its
// bytes.
func TestApprovalPayloadsKeepTheirBytes(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 5e8, time.UTC)
	q := newQuestion("/prod/lockkeeper", lockguard.Question{
		Pending: lockguard.Pending{
			Subject: lockguard.Subject{Scope: "cluster/orders", Owner: "payments@h1", Priority: 80, Message: "month's <end>"},
			Job:     "payments", Labels: map[string]string{"team": "orders"},
			Holders: []recipes.Contender{{ID: "c1", Owner: "backup", Host: "db1", PID: 41, Terms: priority.Terms{Priority: 7}, Token: 4294967298}, {ID: "c2", Owner: "report"}},
			Err:     &recipes.CleanupPendingError{Waited: 1500 * time.Millisecond},
		},
		Patience: 15 * time.Minute,
	}, []EscalationStep{{AfterMS: 300_000, To: "on-call"}})
	require.NotEmpty(t, q.Host)
	require.NotZero(t, q.PID)
	q.Host, q.PID = "h1", 9
	bare := newQuestion("", lockguard.Question{Pending: lockguard.Pending{Subject: lockguard.Subject{Scope: "db", Owner: "ana"}}, Patience: time.Second}, nil)
	bare.Host, bare.PID = "h1", 9
	d := ApprovalDecision{Approved: true, Force: true, By: "ana", Reason: "payments", Identity: "digest:ana", Person: true, At: at, Until: at.Add(time.Minute)}
	const bareText = `{"id":"w-8569bb128ef0a5cb","root":"","scope":"db","requestor":{"owner":"ana","priority":0},"holders":null,"waited_ms":0,"deadline_ms":1000,"host":"h1","pid":9}`
	const decided = `{"approved":true,"force":true,"by":"ana","reason":"payments","identity":"digest:ana","person":true,"at":"2026-11-21T12:00:00.5Z","until":"2026-11-21T12:01:00.5Z"}`
	for want, payload := range map[string]any{
		`{"id":"w-c318915fa67c9d18","root":"/prod/lockkeeper","scope":"cluster/orders","job":"payments","labels":{"team":"orders"},` +
			`"requestor":{"owner":"payments@h1","priority":80},"holders":[{"id":"c1","owner":"backup","host":"db1","pid":41,"priority":7,"token":"4294967298"},{"id":"c2","owner":"report","priority":0}],` +
			`"reason":"month's \u003cend\u003e","waited_ms":1500,"deadline_ms":900000,"escalation":[{"after_ms":300000,"to":"on-call"}],"host":"h1","pid":9}`: q,
		bareText: bare,
		decided:  d,
		`{"approved":false,"by":"the deadline","reason":"nobody has decided within 1s","person":false,"at":"0001-01-01T00:00:00Z","until":"0001-01-01T00:00:00Z"}`:                                    bare.late(),
		`{"question":` + bareText + `,"opened":"2026-11-21T12:00:00.5Z","until":"2026-11-21T12:00:00.5Z","askers":["h1 ana"],"decision":` + decided + `}`:                                             ApprovalState{Question: bare, Opened: at, Until: at, Askers: []string{"h1 ana"}, Decision: &d},
		`{"question":` + bareText + `,"opened":"2026-11-21T12:00:00.5Z","until":"2026-11-21T12:00:00.5Z","askers":null,"escalated":[{"at":"2026-11-21T12:00:00.5Z","to":"on-call"}],"decision":null}`: ApprovalState{Question: bare, Opened: at, Until: at, Escalated: []recipes.Escalated{{At: at, To: "on-call"}}},
		`{"by":"ana","reason":"payments","identity":"digest:ana"}`:                      ApprovalRuling{By: "ana", Reason: "payments", Identity: "digest:ana"},
		`{"question":` + bareText + `,"to":"on-call","until":"2026-11-21T12:00:00.5Z"}`: Escalation{Question: bare, To: "on-call", Until: at},
		`{"name":"h1 ana","leave":true,"gone":true}`:                                    asker{Name: "h1 ana", Leave: true, Gone: true},
	} {
		p, err := converter.GetDefaultDataConverter().ToPayload(payload)
		require.NoError(t, err)
		require.Equal(t, want, string(p.GetData()))
	}

	// of what is too long there is as much as before
	long := lockguard.Question{Pending: lockguard.Pending{Subject: lockguard.Subject{Scope: "db", Owner: "ana", Message: strings.Repeat("wör\xff", 300)}}}
	for i := range 22 {
		long.Holders = append(long.Holders, recipes.Contender{ID: fmt.Sprint("c", i), Owner: strings.Repeat("ö", 501)})
	}
	cut := newQuestion("", long, nil)
	require.Equal(t, "w-9af21208f72ab03b", cut.ID)
	require.Equal(t, strings.Repeat("wör\uFFFD", 142)+"wö…", cut.Reason)
	require.Len(t, cut.Holders, 21)
	require.Equal(t, ApprovalParty{ID: "c19", Owner: strings.Repeat("ö", 498) + "…"}, cut.Holders[19])
	require.Equal(t, ApprovalParty{Owner: "2 more"}, cut.Holders[20])
}
