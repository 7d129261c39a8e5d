package devserver

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
)

// Start runs a server for the length of a test. When the test fails, the end of the server's log is printed with it.
func Start(t testing.TB, settings Settings) *Server {
	t.Helper()
	server, err := Run(t.Context(), settings)
	if err != nil {
		t.Fatalf("start Temporal: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of Temporal at %s:\n%s", server.Addr(), server.LogTail(60))
		}
		if err := server.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return server
}

// Namespace registers a namespace that no other test uses, named after the test, and returns when it takes workflows.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	name := Name(t)
	if err := s.register(t.Context(), name); err != nil {
		t.Fatalf("register the namespace %s: %v", name, err)
	}
	return name
}

func (s *Server) register(ctx context.Context, name string) error {
	c, err := client.NewLazyClient(s.options(name))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.poll(ctx, func(ctx context.Context) error { return inNamespace(ctx, c, name) })
}

// Client returns a client in a namespace of its own (see Namespace), closed at the end of the test.
func (s *Server) Client(t testing.TB) client.Client {
	t.Helper()
	return s.ClientIn(t, s.Namespace(t))
}

// ClientIn returns a client in a namespace that is there, closed at the end of the test. Each of the functions changes
// the options that it is made with.
func (s *Server) ClientIn(t testing.TB, namespace string, change ...func(*client.Options)) client.Client {
	t.Helper()
	options := s.options(namespace)
	for _, f := range change {
		f(&options)
	}
	c, err := client.NewLazyClient(options)
	if err != nil {
		t.Fatalf("make a client for %s: %v", s.Addr(), err)
	}
	t.Cleanup(c.Close)
	return c
}

// Name returns a name for a task queue, a workflow or a namespace that no other test uses, made of the test's.
func Name(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return strings.ToLower(name[:min(len(name), 100)] + "-" + rand.Text()[:8])
}

// History returns all events of a workflow, of the run that was last with an empty run id.
func History(t testing.TB, c client.Client, workflow, run string) []*history.HistoryEvent {
	t.Helper()
	var events []*history.HistoryEvent
	iterator := c.GetWorkflowHistory(t.Context(), workflow, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		if err != nil {
			t.Fatalf("read the history of %s: %v", workflow, err)
		}
		events = append(events, event)
	}
	return events
}

// Shared is one server for all tests of a package, started by the first that asks for it. The zero value runs one with
// default settings. Tests that stop or restart a server Start one of their own instead.
type Shared struct {
	// Settings are those of the server. They are read by the first call to Server.
	Settings Settings

	one sharing.One[*Server]
}

// Server returns the shared server. When the test fails, what the server wrote to its log meanwhile is
// printed with it.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.one.PutAside((*Server).isBroken)
	server, err := s.one.Get(func() (*Server, error) { return Run(context.Background(), s.Settings) })
	if err != nil {
		t.Fatalf("start the shared Temporal: %v", err)
	}
	before := server.journal.position()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the shared Temporal during this test:\n%s", server.journal.since(before, 60))
		}
	})
	return server
}

// isBroken reports whether the server can serve no more tests: its SQLite interrupts all that it is asked,
// for ever, when a call was cancelled in a certain moment. Servers that are overloaded find it.
func (s *Server) isBroken() bool { return strings.Contains(s.journal.since(0, 20), "interrupted (9)") }

// Main runs the tests and closes the servers. See sharing.One.Main.
func (s *Shared) Main(run func() int, checks ...func() error) int {
	return s.one.Main(run, checks...)
}
