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
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The same request asks the same question in all versions. payload_test.go has the
// bytes of what else travels.
func TestAQuestionIsMadeOfARequestAsBefore(t *testing.T) {
	q := newQuestion("/prod/lockkeeper", lockguard.Question{
		Pending: lockguard.Pending{
			Subject: lockguard.Subject{Scope: "cluster/orders", Identity: priority.Identity{Owner: "payments@h1", Message: "month's <end>"}, Priority: 80},
			Job:     "payments", Labels: map[string]string{"team": "orders"},
			Holders: []lock.Contender{{ID: "c1", Identity: priority.Identity{Owner: "backup", Host: "db1", PID: 41}, Terms: priority.Terms{Priority: 7}, Token: 4294967298}, {ID: "c2", Identity: priority.Identity{Owner: "report"}}},
			Err:     &lock.CleanupPendingError{Waited: 1500 * time.Millisecond},
		},
		Patience: 15 * time.Minute,
	}, []EscalationStep{{AfterMS: 300_000, To: "on-call"}})
	require.NotEmpty(t, q.Host)
	require.NotZero(t, q.PID)
	q.Host, q.PID = "h1", 9
	p, err := converter.GetDefaultDataConverter().ToPayload(q)
	require.NoError(t, err)
	want := `{"id":"w-c318915fa67c9d18","root":"/prod/lockkeeper","scope":"cluster/orders","job":"payments","labels":{"team":"orders"},` +
		`"requestor":{"owner":"payments@h1","priority":80},"holders":[{"id":"c1","owner":"backup","host":"db1","pid":41,"priority":7,"token":"4294967298"},{"id":"c2","owner":"report","priority":0}],` +
		`"reason":"month's \u003cend\u003e","waited_ms":1500,"deadline_ms":900000,"escalation":[{"after_ms":300000,"to":"on-call"}],"host":"h1","pid":9}`
	require.Equal(t, want, string(p.GetData()), "to the byte")

	// of what is too long there is as much as before
	long := lockguard.Question{Pending: lockguard.Pending{Subject: lockguard.Subject{Scope: "db", Identity: priority.Identity{Owner: "ana", Message: strings.Repeat("wör\xff", 300)}}}}
	for i := range 22 {
		long.Holders = append(long.Holders, lock.Contender{ID: fmt.Sprint("c", i), Identity: priority.Identity{Owner: strings.Repeat("ö", 501)}})
	}
	cut := newQuestion("", long, nil)
	require.Equal(t, "w-9af21208f72ab03b", cut.ID)
	require.Equal(t, strings.Repeat("wör\uFFFD", 142)+"wö…", cut.Reason)
	require.Len(t, cut.Holders, 21)
	require.Equal(t, ApprovalParty{ID: "c19", Owner: strings.Repeat("ö", 498) + "…"}, cut.Holders[19])
	require.Equal(t, ApprovalParty{Owner: "2 more"}, cut.Holders[20])
}
