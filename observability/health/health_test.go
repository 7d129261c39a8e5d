package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func ask(t *testing.T, h http.Handler) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
	return answer.Code, answer.Body.String()
}

func TestProcessThatIsNotReadySaysEveryReason(t *testing.T) {
	var problem error
	checks := []Check{
		{Name: "a", Ask: func() error { return nil }},
		{Name: "b", Ask: func() error { return problem }},
		{Name: "c", Ask: func() error { return problem }},
	}
	status, body := ask(t, Ready(checks...))
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"ready":true,"reasons":[]}`, body)

	problem = errors.New(`no "luck"`)
	status, body = ask(t, Ready(checks...))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"ready":false,"reasons":[{"check":"b","reason":"no \"luck\""},{"check":"c","reason":"no \"luck\""}]}`, body)

	problem = nil
	status, _ = ask(t, Ready(checks...))
	require.Equal(t, http.StatusOK, status)
}

func TestProcessIsReadyInSpiteOfWarnings(t *testing.T) {
	status, body := ask(t, Ready(
		Check{Name: "a", Warns: true, Ask: func() error { return nil }},
		Check{Name: "clock", Warns: true, Ask: func() error { return errors.New("it is wrong") }},
	))
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"ready":true,"reasons":[],"warnings":[{"check":"clock","reason":"it is wrong"}]}`, body)
}

func TestProcessThatAnswersIsAlive(t *testing.T) {
	status, body := ask(t, Alive(func() any { return map[string]string{"status": "draining"} }))
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"draining"}`, body)
}

func TestSessionSaysWhatIsWrongWithIt(t *testing.T) {
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		health lock.Health
		want   []Reason
	}{
		"connected": {lock.Health{State: zkclient.SessionConnected}, []Reason{}},
		"cut off": {
			lock.Health{State: zkclient.SessionSuspended, Left: 2340 * time.Millisecond, Err: down},
			[]Reason{{"zookeeper", "ZooKeeper does not answer, what is held is safe for 2.3s more: connection refused"}},
		},
		"cut off for too long": {
			lock.Health{State: zkclient.SessionSuspended},
			[]Reason{{"zookeeper", "ZooKeeper does not answer, what is held is lost"}},
		},
		"no session, and no server answers": {
			lock.Health{State: zkclient.SessionConnecting, Err: down},
			[]Reason{{"zookeeper", "ZooKeeper does not answer: connection refused"}, {"session", "there is no session with ZooKeeper yet, or the last one has ended"}},
		},
		"no session": {
			lock.Health{State: zkclient.SessionConnecting},
			[]Reason{{"session", "there is no session with ZooKeeper yet, or the last one has ended"}},
		},
		"closed": {lock.Health{State: zkclient.SessionClosed}, []Reason{{"session", "the session with ZooKeeper is closed: the process ends"}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, Readiness{Ready: len(c.want) == 0, Reasons: c.want}, Look(Session(func() lock.Health { return c.health })...))
		})
	}
}
