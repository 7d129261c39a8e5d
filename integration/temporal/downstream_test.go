package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A downstream is what the lock protects: a service that remembers the largest token that it has seen, and refuses
// writes with an older one. Processes reach it over HTTP.
type downstream struct {
	test testing.TB
	url  string

	mu      sync.Mutex
	highest lockguard.Token
	reports []report
	gates   map[string]chan struct{}
	arrived func(report) // each, before it is answered
}

// A report is what a worker tells the downstream.
type report struct {
	What    string // enter, write and leave; others are for the test
	Worker  string
	Key     string // the workflow
	Attempt int32
	Token   lockguard.Token
	Cause   string `json:",omitempty"`
	Refused bool   // a write
}

func newDownstream(t testing.TB) *downstream {
	t.Helper()
	d := &downstream{test: t, gates: make(map[string]chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reports", func(w http.ResponseWriter, r *http.Request) {
		var what report
		if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(d.receive(what))
	})
	mux.HandleFunc("GET /gates/{name}", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-d.gate(r.PathValue("name")):
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	d.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if t.Failed() {
			for _, r := range d.reported() {
				t.Logf("%+v", r)
			}
		}
	})
	return d
}

func (d *downstream) receive(r report) report {
	d.mu.Lock()
	if r.What == "write" {
		r.Refused = r.Token < d.highest
		d.highest = max(d.highest, r.Token)
	}
	d.reports = append(d.reports, r)
	arrived := d.arrived
	d.mu.Unlock()
	if arrived != nil {
		arrived(r)
	}
	return r
}

// reported returns the reports of these kinds; without any: all.
func (d *downstream) reported(kinds ...string) []report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.reports), func(r report) bool { return len(kinds) > 0 && !slices.Contains(kinds, r.What) })
}

// awaits returns the first report of a kind that fits.
func (d *downstream) awaits(what string, fits ...func(report) bool) (found report) {
	d.test.Helper()
	harness.Eventually(d.test, func() bool {
		all := d.reported(what)
		i := slices.IndexFunc(all, func(r report) bool {
			return !slices.ContainsFunc(fits, func(fits func(report) bool) bool { return !fits(r) })
		})
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	}, "report %q", what)
	return found
}

func by(worker string) func(report) bool { return func(r report) bool { return r.Worker == worker } }
func refused(r report) bool              { return r.Refused }

// gate is closed when it is opened.
func (d *downstream) gate(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[name] == nil {
		d.gates[name] = make(chan struct{})
	}
	return d.gates[name]
}

func (d *downstream) open(name string) { close(d.gate(name)) }

// oneAtATime fails the test unless critical sections came one after the other, with tokens that grow; those of workers
// that were killed have no end.
func (d *downstream) oneAtATime(killed ...string) {
	t := d.test
	t.Helper()
	var inside *report
	var last lockguard.Token
	stopped := make(map[lockguard.Token]bool)
	for _, r := range d.reported("enter", "write", "leave", "stop") {
		if r.What == "stop" {
			stopped[r.Token] = true
			if inside != nil && inside.Token == r.Token {
				inside = nil
			}
		}
		if stopped[r.Token] { // a report whose sender had gone may come late
			continue
		}
		if r.What == "enter" {
			require.True(t, inside == nil || slices.Contains(killed, inside.Worker), "%+v while %+v is inside", r, inside)
			require.Greater(t, r.Token, last, "%+v", r)
			inside, last = &r, r.Token
			continue
		}
		require.False(t, r.Refused, "%+v", r)
		require.NotNil(t, inside, "%+v", r)
		require.Equal(t, inside.Token, r.Token)
		if r.What == "leave" {
			inside = nil
		}
	}
}

// A reporter has the activities of a worker, which report to a downstream what they do.
type reporter struct {
	url, worker string
	client      *http.Client
}

func (d *downstream) reporter(worker string) reporter { return newReporter(d.url, worker) }

func newReporter(url, worker string) reporter {
	return reporter{url, worker, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// register registers them, and the workflows that use them.
func (p reporter) register(r worker.Registry) {
	r.RegisterWorkflow(single)
	r.RegisterWorkflow(Migrate)
	for name, a := range map[string]any{
		"labour": p.labour, "linger": p.linger, "block": p.block,
		"step": func(ctx context.Context) (lockguard.Token, error) { return p.tell(ctx, "step") },
		"undo": func(ctx context.Context) (lockguard.Token, error) { return p.tell(ctx, "undo") },
	} {
		r.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
	}
}

// labour writes a few times, and succeeds if nothing is refused. It says so when it stops before that, as a workflow of
// higher priority preempts it.
func (p reporter) labour(ctx context.Context) (token lockguard.Token, err error) {
	for _, what := range []string{"enter", "write", "write", "leave"} {
		if token, err = p.tell(ctx, what); err != nil {
			if ctx.Err() != nil {
				_, _ = p.send(context.WithoutCancel(ctx), p.about(ctx, "stop"))
			}
			return 0, err
		}
	}
	return token, nil
}

// enter and leave are a critical section of two activities.
func (p reporter) enter(ctx context.Context) (lockguard.Token, error) { return p.tell(ctx, "enter") }

func (p reporter) leave(ctx context.Context) (lockguard.Token, error) { return p.tell(ctx, "leave") }

// linger writes. In the first attempt it waits until its context ends, tells why, and leaves a goroutine behind that
// writes once more when the gate "late" is open. In the next ones it returns its token.
func (p reporter) linger(ctx context.Context) (lockguard.Token, error) {
	if activity.GetInfo(ctx).Attempt > 1 {
		return p.tell(ctx, "write")
	}
	// The worker may be stopped before it has the answer: it goes on all the same.
	if token, err := p.tell(context.WithoutCancel(ctx), "write"); err != nil {
		return token, err
	}
	<-ctx.Done()
	told := p.about(ctx, "told")
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		_, _ = p.send(ctx, told)
		if p.pass(ctx, "late") == nil {
			told.What = "write"
			_, _ = p.send(ctx, told)
		}
	}()
	return 0, ctx.Err()
}

// block waits until its context ends, and tells why.
func (p reporter) block(ctx context.Context) error {
	if _, err := p.tell(ctx, "block"); err != nil {
		return err
	}
	<-ctx.Done()
	_, _ = p.send(context.WithoutCancel(ctx), p.about(ctx, "told"))
	return ctx.Err()
}

// about is a report of an activity.
func (p reporter) about(ctx context.Context, what string) report {
	info := activity.GetInfo(ctx)
	r := report{What: what, Worker: p.worker, Key: info.WorkflowExecution.ID, Attempt: info.Attempt, Cause: causeOf(ctx)}
	if hold, ok := lockguard.FromContext(ctx); ok {
		r.Token = hold.Token()
	}
	return r
}

// tell reports what an activity does, and returns its token.
func (p reporter) tell(ctx context.Context, what string) (lockguard.Token, error) {
	r, err := p.send(ctx, p.about(ctx, what))
	if err == nil && r.Refused {
		err = fmt.Errorf("%s is refused", what)
	}
	return r.Token, err
}

// send returns the report as the downstream has taken it.
func (p reporter) send(ctx context.Context, r report) (taken report, err error) {
	r.Worker = p.worker
	text, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/reports", bytes.NewReader(text))
	if err != nil {
		return r, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return r, err
	}
	defer func() { _ = response.Body.Close() }()
	return taken, json.NewDecoder(response.Body).Decode(&taken)
}

// pass waits until a gate is open.
func (p reporter) pass(ctx context.Context, gate string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/gates/"+gate, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// causeOf says in a word why the context of an activity has ended.
func causeOf(ctx context.Context) string {
	cause := context.Cause(ctx)
	switch {
	case errors.As(cause, new(*temporal.SupersededError)), errors.As(cause, new(*serviceerror.NotFound)):
		return "superseded"
	case errors.As(cause, new(*lockguard.PreemptedError)):
		return "preempted"
	case errors.As(cause, new(*lockguard.LostError)):
		return "lost"
	case sdk.IsCanceledError(cause):
		return "canceled"
	case errors.Is(cause, activity.ErrActivityPaused):
		return "paused"
	case errors.Is(cause, worker.ErrWorkerShutdown):
		return "shutdown"
	case cause == nil:
		return ""
	}
	return cause.Error()
}
