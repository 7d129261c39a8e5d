package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// tick is an instant of a schedule.
var tick = time.Date(2026, 3, 8, 9, 30, 0, 0, time.FixedZone("", 2*60*60))

// serve starts a server that goes with the test.
func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	return server
}

// got is a request as a server has seen it.
type got struct {
	method, path, body string
	header             http.Header
}

// record starts a server that answers with 200 and tells what it got.
func record(t *testing.T) (url string, requests chan got) {
	t.Helper()
	requests = make(chan got, 10)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- got{r.Method, r.URL.RequestURI(), string(body), r.Header.Clone()}
	})
	return server.URL, requests
}

func TestRequestTellsItsRunAndItsLock(t *testing.T) {
	// given a lock, and a run that a schedule has started
	address, requests := record(t)
	h := newFakeHold(t)
	h.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	h.info = lockguard.Info{Requirement: lockguard.Requirement{Scope: "cluster/größe"}, Token: 4294967298}
	work := &HTTP{URL: address + "/compact?all=1", Body: []byte(`{"all":true}`), Header: http.Header{"X-Mine": {"a", "b"}}}

	// when it runs
	err := work.run(h.ctx, Run{Attempt: "7f3a", Job: "compact", Scheduled: tick}, h)

	// then the server knows all of it
	require.NoError(t, err)
	request := <-requests
	require.Equal(t, []string{"POST", "/compact?all=1", `{"all":true}`}, []string{request.method, request.path, request.body})
	request.header.Del("Accept-Encoding")
	request.header.Del("Connection")
	require.Equal(t, http.Header{
		"Content-Length":       {"12"},
		"Content-Type":         {"application/json"},
		"Idempotency-Key":      {"compact-2026-03-08T07:30:00Z"},
		"Lockkeeper-Job":       {"compact"},
		"Lockkeeper-Run":       {"7f3a"},
		"Lockkeeper-Scheduled": {"2026-03-08T07:30:00Z"},
		"Lockkeeper-Scope":     {"cluster/gr%C3%B6%C3%9Fe"},
		"Lockkeeper-Token":     {"4294967298"},
		"Lockkeeper-Tokens":    {`{"cluster/gr\u00f6\u00dfe":"4294967298"}`},
		"Traceparent":          {h.trace},
		"User-Agent":           {"lockkeeper"},
		"X-Mine":               {"a", "b"},
	}, request.header)
}

func TestRequestOfARunByHandHasTheKeyOfItsAttempt(t *testing.T) {
	address, requests := record(t)
	job := Job{Name: "compact", Work: &HTTP{URL: address, Method: "GET", Header: http.Header{"User-Agent": {"mine"}}}}
	require.NoError(t, job.Do(t.Context(), nil, Run{Attempt: "7f3a"}))
	first := (<-requests).header
	require.Equal(t, "compact-7f3a", first.Get("Idempotency-Key"))
	require.Equal(t, "mine", first.Get("User-Agent"))
	require.Empty(t, first.Values("Lockkeeper-Scheduled"))
	require.Empty(t, first.Values("Lockkeeper-Token"))

	// also without a name
	require.NoError(t, job.Do(t.Context(), nil, Run{}))
	second := (<-requests).header.Get("Idempotency-Key")
	require.NoError(t, job.Do(t.Context(), nil, Run{}))
	third := (<-requests).header.Get("Idempotency-Key")
	require.Regexp(t, "^compact-.{20,}", second)
	require.NotEqual(t, second, third)
}

func TestCleanupRequestTellsTheCauseAndHasAKeyOfItsOwn(t *testing.T) {
	address, requests := record(t)
	h := newFakeHold(t)
	h.info.Token = 12
	run := Run{Job: "compact", Scheduled: tick, Cause: &lockguard.PreemptedError{}}
	require.NoError(t, (&HTTP{URL: address}).run(context.Background(), run, h))
	header := (<-requests).header
	require.Equal(t, "preempted", header.Get("Lockkeeper-Cause"))
	require.Equal(t, "compact-2026-03-08T07:30:00Z-cleanup-12", header.Get("Idempotency-Key"))
}

func TestAnswerDecides(t *testing.T) {
	date := time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		expect []int
		want   *StatusError // nil: success
		says   string
	}{
		"200":                    {status: 200},
		"204":                    {status: 204},
		"299":                    {status: 299},
		"409 that is expected":   {status: 409, expect: []int{200, 409}},
		"204 that is unexpected": {status: 204, expect: []int{200}, want: &StatusError{}, says: "was answered with 204 No Content"},
		"500 with a reason":      {status: 500, body: " disk full\n", want: &StatusError{Body: "disk full"}, says: `was answered with 500 Internal Server Error: "disk full"`},
		"500 with a long one":    {status: 500, body: strings.Repeat("x", 501), want: &StatusError{Body: strings.Repeat("x", 500) + "…"}},
		"503 for a while": {
			status: 503, header: http.Header{"Retry-After": {"90"}},
			want: &StatusError{RetryAfter: 90 * time.Second}, says: "503 Service Unavailable, try again in 1m30s",
		},
		"429 until a date": {
			status: 429, header: http.Header{"Date": {date.Format(http.TimeFormat)}, "Retry-After": {date.Add(time.Minute).Format(http.TimeFormat)}},
			want: &StatusError{RetryAfter: time.Minute},
		},
		"503 since a date": {
			status: 503, header: http.Header{"Date": {date.Format(http.TimeFormat)}, "Retry-After": {date.Add(-time.Minute).Format(http.TimeFormat)}},
			want: &StatusError{},
		},
		"503 and nonsense": {status: 503, header: http.Header{"Retry-After": {"soon"}}, want: &StatusError{}},
		"503 for ages":     {status: 503, header: http.Header{"Retry-After": {"99999999999"}}, want: &StatusError{RetryAfter: 9223372036 * time.Second}},
		"a redirect": {
			status: 307, header: http.Header{"Location": {"https://user:secret@example.com/there?key=secret"}},
			want: &StatusError{Location: "https://example.com/there?…"},
			says: "was answered with 307 Temporary Redirect, a redirect to https://example.com/there?… that is not followed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), c.header)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			address := strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "/path?key=secret"
			err := (&HTTP{URL: address, Expect: c.expect}).Run(t.Context(), Run{})
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			c.want.Method, c.want.Status, c.want.URL = "POST", c.status, server.URL+"/path?…"
			require.Equal(t, c.want, err)
			require.ErrorContains(t, err, "POST "+c.want.URL+" was answered with")
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.NotErrorIs(t, err, lockguard.ErrStopped)
		})
	}
}

func TestPasswordOfTheURLIsSent(t *testing.T) {
	address, requests := record(t)
	require.NoError(t, (&HTTP{URL: strings.Replace(address, "http://", "http://user:secret@", 1)}).Run(t.Context(), Run{}))
	require.Equal(t, "Basic dXNlcjpzZWNyZXQ=", (<-requests).header.Get("Authorization"))
}

func TestOnlyARequestThatReadsFollowsRedirectsOfItsHost(t *testing.T) {
	var elsewhere, neighbour string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusFound)
		case "/port":
			http.Redirect(w, r, neighbour, http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			_, _ = io.WriteString(w, "arrived")
		}
	})
	elsewhere = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/there"
	neighbour = "http://127.0.0.1:1/there" // which may be somebody else's

	for name, c := range map[string]struct {
		work HTTP
		says string // "": it arrives
	}{
		"GET":             {HTTP{Method: "GET", URL: "/here"}, ""},
		"POST":            {HTTP{URL: "/here"}, "302 Found, a redirect to " + server.URL + "/there that is not followed"},
		"expected POST":   {HTTP{URL: "/here", Expect: []int{302}}, ""},
		"to another":      {HTTP{Method: "GET", URL: "/away"}, "302 Found, a redirect to " + elsewhere},
		"to another port": {HTTP{Method: "GET", URL: "/port"}, "302 Found, a redirect to " + neighbour},
		"round and round": {HTTP{Method: "GET", URL: "/round"}, "it was redirected more than 10 times"},
	} {
		t.Run(name, func(t *testing.T) {
			c.work.URL = server.URL + c.work.URL
			err := c.work.Run(t.Context(), Run{})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRequestEndsWithWhatEndsItsRightToRun(t *testing.T) {
	gone := errors.New("stopped")
	lost, lostRun := &lockguard.LostError{Scope: "s"}, make(chan struct{})
	for name, c := range map[string]struct {
		end  func(h *fakeHold, cancel context.CancelCauseFunc)
		want error
	}{
		"its context":                {func(_ *fakeHold, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
		"its preemption":             {func(h *fakeHold, _ context.CancelCauseFunc) { h.end(gone) }, gone},
		"the loss of its lock":       {func(h *fakeHold, _ context.CancelCauseFunc) { h.lose(lost) }, lost},
		"the loss alone":             {func(h *fakeHold, _ context.CancelCauseFunc) { close(h.lost) }, &lockguard.LostError{}},
		"a lock that may be lost":    {func(h *fakeHold, _ context.CancelCauseFunc) { close(h.atRisk) }, lockguard.ErrAtRisk},
		"the loss in a cleanup hook": {func(h *fakeHold, _ context.CancelCauseFunc) { close(h.lost) }, &lockguard.LostError{}},
		"the loss of its run":        {func(*fakeHold, context.CancelCauseFunc) { close(lostRun) }, &lockguard.LostError{}},
	} {
		t.Run(name, func(t *testing.T) {
			// given a request that the server takes its time for
			began, left := make(chan struct{}), make(chan struct{})
			server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				close(began)
				<-r.Context().Done()
				close(left)
			})
			h := newFakeHold(t)
			parent := h.ctx
			if strings.Contains(name, "hook") {
				h.end(lockguard.ErrReleased)
				parent = context.Background()
			}
			ctx, cancel := context.WithCancelCause(parent)
			defer cancel(nil)
			ended := make(chan error, 1)
			run, under := Run{}, lockguard.WorkHold(h)
			if name == "the loss of its run" {
				run.Lost, under = lostRun, nil
			}
			go func() { ended <- (&HTTP{URL: server.URL}).run(ctx, run, under) }()
			<-began

			// when its right to run ends
			c.end(h, cancel)

			// then the request does, and says so
			var err error
			select {
			case err = <-ended:
			case <-time.After(patience):
				require.FailNow(t, "the request goes on")
			}
			require.Equal(t, &CallError{Cause: c.want, Method: "POST", Sent: true, URL: server.URL}, err)
			require.ErrorIs(t, err, lockguard.ErrStopped)
			require.ErrorContains(t, err, "was stopped before its answer: "+c.want.Error())
			<-left
		})
	}
}

func TestRequestIsNotSentWhenItWouldBeToldToGo(t *testing.T) {
	address, requests := record(t)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	err := (&HTTP{URL: address}).Run(ctx, Run{})
	require.Equal(t, &CallError{Cause: gone, Method: "POST", URL: address}, err)
	require.EqualError(t, err, "POST "+address+" was stopped before it was sent: gone")
	require.Empty(t, requests)
}

func TestTimeoutOfTheJobEndsTheRequestAndIsTheCauseOfItsHook(t *testing.T) {
	// given a job whose request never ends
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	var told error
	job := Job{Name: "slow", Timeout: 50 * time.Millisecond, Work: WithCleanup(&HTTP{URL: server.URL, Method: "GET"}, func(_ context.Context, run Run) error {
		told = run.Cause
		return nil
	})}
	work, hooks := job.Bind(Run{})

	// when its time is over
	err := work(t.Context())

	// then both know why
	require.ErrorAs(t, err, new(*TimeoutError))
	require.ErrorIs(t, err, lockguard.ErrStopped)
	require.NoError(t, hooks[0](t.Context()))
	require.Equal(t, &TimeoutError{Job: "slow", Timeout: 50 * time.Millisecond}, told)
}

func TestRequestThatGetsNoAnswerSaysWhereItFailed(t *testing.T) {
	hangsUp := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	breaksOff := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	const noListener = "http://127.0.0.1:1" // no port that a listener gets by chance

	for name, c := range map[string]struct {
		url  string
		sent bool
		is   error
		says string
	}{
		"no listener":    {noListener + "/x?key=secret", false, syscall.ECONNREFUSED, "POST " + noListener + "/x?… could not be sent: dial tcp"},
		"it hangs up":    {hangsUp.URL, true, io.EOF, "was sent, but whether it was done is not known: EOF"},
		"it breaks off":  {breaksOff.URL, true, io.ErrUnexpectedEOF, "not known: the answer, 200, broke off: unexpected EOF"},
		"unknown issuer": {secure.URL, false, nil, "could not be sent: tls: failed to verify certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&HTTP{URL: c.url}).Run(t.Context(), Run{})
			var call *CallError
			require.ErrorAs(t, err, &call)
			require.Equal(t, c.sent, call.Sent)
			require.NoError(t, call.Cause)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.NotErrorIs(t, err, lockguard.ErrStopped)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func TestAnswerIsTheOutputAndKeepsItsEnd(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 10_000))
		}
		_, _ = io.WriteString(w, "the end")
	})
	job := Job{Name: "a", Work: CleanedBy(&HTTP{URL: server.URL, MaxOutput: 100}, nothing)}
	output := job.NewOutput()
	require.NoError(t, job.Do(t.Context(), nil, Run{Stdout: output}))
	require.Len(t, output.String(), 100)
	require.True(t, strings.HasSuffix(output.String(), "xxthe end"))

	// and a writer that fails does not spoil it
	require.NoError(t, job.Do(t.Context(), nil, Run{Stdout: failing{}}))
}

func TestClientOfOnesOwnMakesTheRequest(t *testing.T) {
	refused := errors.New("no proxy")
	client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, refused }}}
	require.ErrorIs(t, (&HTTP{URL: "http://127.0.0.1", Client: client}).Run(t.Context(), Run{}), refused)
}

func TestHTTPValidateTellsAllAtOnce(t *testing.T) {
	require.NoError(t, (&HTTP{URL: "https://user:password@example.com:8443/a?b=c", Method: "PROPFIND", Body: []byte("x"), Header: http.Header{"Host": {"other"}}}).Validate())

	err := (&HTTP{
		URL: "ftp://user:secret@example.com/?key=secret", Method: "get", Body: []byte("x"), Expect: []int{200, 99, 600}, MaxOutput: -1,
		Header: http.Header{"A b": {"1"}, "X-A": {"a\nsecret", "b"}, "lockkeeper-token": {"1"}, "Idempotency-Key": {"1"}, "Content-Length": {"1"}},
	}).Validate()
	require.EqualError(t, err, strings.Join([]string{
		`lockkeeper: url: "ftp://example.com/?…" is not of http or https; write one such as https://example.com/compact`,
		`lockkeeper: method: "get" is not in capitals; write GET`,
		`lockkeeper: headers: "A b" is no name of a header; write letters, digits and hyphens`,
		`lockkeeper: headers.Content-Length: belongs to the connection, not to the request; leave it out`,
		`lockkeeper: headers.Idempotency-Key: is set by lockkeeper itself; leave it out`,
		`lockkeeper: headers.X-A: its value has a control character in it; write it without`,
		`lockkeeper: headers.lockkeeper-token: is set by lockkeeper itself; leave it out`,
		`lockkeeper: expect[1]: 99 is no status that a request ends with; write one between 200 and 599`,
		`lockkeeper: expect[2]: 600 is no status that a request ends with; write one between 200 and 599`,
		`lockkeeper: output: -1 is negative; write how many bytes to keep, or leave it out`,
	}, "\n"))
	require.NotContains(t, err.Error(), "secret")
}

func TestInvalidRequests(t *testing.T) {
	for says, work := range map[string]*HTTP{
		"http: is nil":                           nil,
		"url: is missing; write one such as":     {},
		"url: it is no URL":                      {URL: "https://user:se%cret@example.com"},
		`url: "//example.com/x" is not of http`:  {URL: "//example.com/x"},
		`url: "/x" is not of http or https`:      {URL: "/x"},
		`url: "https:///x" names no host`:        {URL: "https:///x"},
		`url: "http://:80" names no host`:        {URL: "http://:80"},
		`url: "http://a/b" has a fragment`:       {URL: "http://a/b#c"},
		`method: "GO FISH" is no method of HTTP`: {URL: "http://a", Method: "GO FISH"},
		"method: CONNECT is for proxies":         {URL: "http://a", Method: "CONNECT"},
		"body: a GET request has none":           {URL: "http://a", Method: "GET", Body: []byte("x")},
	} {
		t.Run(says, func(t *testing.T) {
			err := work.Validate()
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "cret")
			require.Equal(t, err, work.Run(t.Context(), Run{}))
		})
	}
}

func TestProblemsOfACleanupOfAnyKindAreToldAsItsOwn(t *testing.T) {
	job := Job{
		Name:         "a",
		Requirements: []lockguard.Requirement{{Scope: "s", Terms: priority.Terms{CleanupTimeout: time.Second}}},
		Work:         CleanedBy(&HTTP{}, &Command{Argv: []string{"a", "\x00"}}),
	}
	err := job.Validate()
	require.ErrorContains(t, err, "run.url: is missing")
	require.ErrorContains(t, err, "run.cleanup.exec[1]: ")
	require.ErrorContains(t, CleanedBy(nothing, nil).(cleaned).Validate(), "nil")
}

func TestCauseWords(t *testing.T) {
	for want, cause := range map[string]error{
		"":           nil,
		"preempted":  &lockguard.PreemptedError{},
		"lease":      fmt.Errorf("wrapped: %w", &lockguard.LeaseExpiredError{}),
		"lost":       &lockguard.LostError{},
		"timeout":    &TimeoutError{},
		"shutdown":   &lockguard.ShutdownError{Err: lockguard.ErrShutdown},
		"at-risk":    lockguard.ErrAtRisk,
		"signal":     &StoppedError{Cause: &SignalError{}},
		"cancelled":  &lockguard.ShutdownError{Err: context.Canceled},
		"overridden": &lockguard.OverriddenError{},
	} {
		require.Equal(t, want, CauseWord(cause))
	}
}
