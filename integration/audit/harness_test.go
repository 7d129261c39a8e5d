package audit

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

type fixture struct{ *harness.Fixture }

func newFixture(t *testing.T) *fixture { return &fixture{harness.New(t, shared.Server(t))} }

func logOf(t testing.TB, c *lock.Client, keep int) *opstore.AuditLog {
	t.Helper()
	l, err := c.AuditLog(keep)
	require.NoError(t, err)
	return l
}

// entry is an entry with a number of its own.
func entry(n int) opstore.AuditEntry {
	return opstore.AuditEntry{
		Act: fmt.Sprint("act-", n), Action: opstore.AuditPreempt, Phase: opstore.AuditOutcome,
		Scope: fmt.Sprintf("cluster/orders/%d", n%3), By: fmt.Sprint("owner-", n), Reason: "outranked", Result: opstore.AuditDone,
	}
}

func appendAll(t *testing.T, l *opstore.AuditLog, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		_, err := l.Append(t.Context(), entry(n))
		require.NoError(t, err)
	}
}

func acts(records []opstore.AuditRecord) []string {
	all := make([]string, 0, len(records))
	for _, r := range records {
		all = append(all, r.Act)
	}
	return all
}

func verified(t *testing.T, l *opstore.AuditLog) opstore.AuditReport {
	t.Helper()
	report, err := l.Verify(t.Context())
	require.NoError(t, err)
	report.Untrusted = nil // most tests have no credentials
	return report
}

// holds requires that the chain is whole, from one number to another.
func holds(t *testing.T, l *opstore.AuditLog, from, to int64) {
	t.Helper()
	require.Equal(t, opstore.AuditReport{Checked: int(to - from + 1), From: from, To: to}, verified(t, l))
}

func (h *fixture) node(seq int) string { return fmt.Sprintf("%s/audit/log/%010d", h.Root, seq) }

func (h *fixture) head() string { return h.Root + "/audit" }

func (h *fixture) read(path string) (string, *zk.Stat) {
	h.Helper()
	data, stat := h.Get(path)
	return string(data), stat
}

func (h *fixture) write(path, data string) {
	h.Helper()
	h.Set(path, []byte(data))
}

// change writes what f makes of what a node says.
func (h *fixture) change(path string, f func(string) string) {
	h.Helper()
	data, _ := h.read(path)
	h.write(path, f(data))
}

func (h *fixture) put(path, data string) {
	h.Helper()
	h.Create(path, []byte(data), 0)
}
