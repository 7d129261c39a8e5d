package audit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 30 * time.Second

var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// A house is a server and a root of its own on it.
type house struct {
	t      *testing.T
	server testbed.Server
	root   string
	shell  *zk.Conn // of somebody who tampers
}

func newHouse(t *testing.T) *house { return houseOn(t, shared.Server(t)) }

func houseOn(t *testing.T, server testbed.Server) *house {
	t.Helper()
	return &house{t: t, server: server, root: testbed.Root(t), shell: testbed.Shell(t, server)}
}

func (h *house) client() *recipes.Client {
	h.t.Helper()
	return h.clientAt(h.server.Addr())
}

func (h *house) clientAt(addr string) *recipes.Client {
	h.t.Helper()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{addr}, Root: h.root, SessionTimeout: 10 * time.Second})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func logOf(t *testing.T, c *recipes.Client, keep int) *recipes.AuditLog {
	t.Helper()
	l, err := c.AuditLog(keep)
	require.NoError(t, err)
	return l
}

// entry is one that is told from others by a number.
func entry(n int) recipes.AuditEntry {
	return recipes.AuditEntry{
		Act: fmt.Sprint("act-", n), Action: recipes.AuditPreempt, Phase: recipes.AuditOutcome,
		Scope: fmt.Sprintf("cluster/orders/%d", n%3), By: fmt.Sprint("owner-", n), Reason: "outranked", Result: recipes.AuditDone,
	}
}

func appendAll(t *testing.T, l *recipes.AuditLog, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		_, err := l.Append(t.Context(), entry(n))
		require.NoError(t, err)
	}
}

func acts(records []recipes.AuditRecord) []string {
	all := make([]string, 0, len(records))
	for _, r := range records {
		all = append(all, r.Act)
	}
	return all
}

func verified(t *testing.T, l *recipes.AuditLog) recipes.AuditReport {
	t.Helper()
	report, err := l.Verify(t.Context())
	require.NoError(t, err)
	report.Untrusted = nil // most tests have no credentials
	return report
}

// holds requires that the chain is whole, from one number to another.
func holds(t *testing.T, l *recipes.AuditLog, from, to int64) {
	t.Helper()
	require.Equal(t, recipes.AuditReport{Checked: int(to - from + 1), From: from, To: to}, verified(t, l))
}

func (h *house) node(seq int) string { return fmt.Sprintf("%s/audit/log/%010d", h.root, seq) }

func (h *house) head() string { return h.root + "/audit" }

func (h *house) read(path string) (string, *zk.Stat) {
	h.t.Helper()
	data, stat, err := h.shell.Get(path)
	require.NoError(h.t, err)
	return string(data), stat
}

func (h *house) write(path, data string) {
	h.t.Helper()
	_, err := h.shell.Set(path, []byte(data), -1)
	require.NoError(h.t, err)
}

func (h *house) remove(path string) {
	h.t.Helper()
	require.NoError(h.t, h.shell.Delete(path, -1))
}

func (h *house) put(path, data string) {
	h.t.Helper()
	_, err := h.shell.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	require.NoError(h.t, err)
}
