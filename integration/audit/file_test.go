package audit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// ships runs an auditor that ships a trail to a file until stop is called, or
// the test ends.
func ships(t *testing.T, trail audit.Trail, name string) (a *audit.Auditor, stop func()) {
	t.Helper()
	a, err := audit.New(audit.Config{Trail: trail, File: name})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Run(ctx) }()
	stop = func() {
		cancel()
		<-done
		_ = a.Close(context.Background())
	}
	t.Cleanup(stop)
	return a, stop
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// shipped waits until the file has a record.
func shipped(t *testing.T, name string, act string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		all := lines(t, name)
		return len(all) > 0 && strings.Contains(all[len(all)-1], `"act":"`+act+`"`)
	}, "no record of %s in %s", act, name)
}

func fileHolds(t *testing.T, name string, trail *opstore.AuditLog, want audit.FileReport) {
	t.Helper()
	report, err := audit.VerifyFile(t.Context(), name, trail)
	require.NoError(t, err)
	require.Equal(t, want, report)
}

func TestFileGetsTheWholeTrailAcrossRestartsAndRotation(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 0)
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	appendAll(t, l, 1, 3)

	// when it is shipped, stopped in the middle of a line, and shipped again
	_, stop := ships(t, l, name)
	shipped(t, name, "act-3")
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	stop()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":4,"at":"2026`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	appendAll(t, l, 4, 5)
	ships(t, l, name)
	shipped(t, name, "act-5")

	// then
	fileHolds(t, name, l, audit.FileReport{Checked: 5, From: 1, To: 5, Compared: 5, Torn: 1})

	// and when it is rotated
	require.NoError(t, os.Rename(name, name+".1"))
	appendAll(t, l, 6, 7)
	shipped(t, name, "act-7")
	fileHolds(t, name+".1", l, audit.FileReport{Checked: 5, From: 1, To: 5, Compared: 5, Torn: 1})
	fileHolds(t, name, l, audit.FileReport{Checked: 2, From: 6, To: 7, Compared: 2})
}

func TestOfTwoProcessesOneShipsAndTheOtherStandsBy(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(), 0)
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	_, stop := ships(t, l, name)
	appendAll(t, l, 1, 2)
	shipped(t, name, "act-2")
	ships(t, logOf(t, h.Client(), 0), name)
	appendAll(t, l, 3, 4)
	shipped(t, name, "act-4")

	// when the one ends
	stop()
	appendAll(t, l, 5, 5)

	// then the other goes on, and nothing is there twice
	shipped(t, name, "act-5")
	fileHolds(t, name, l, audit.FileReport{Checked: 5, From: 1, To: 5, Compared: 5})
}

func TestFileNamesWhatWasRemovedBeforeItCouldBeShipped(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 4)
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	appendAll(t, l, 1, 2)
	_, stop := ships(t, l, name)
	shipped(t, name, "act-2")
	stop()
	appendAll(t, l, 3, 10)
	ships(t, l, name)
	shipped(t, name, "act-10")
	fileHolds(t, name, l, audit.FileReport{Checked: 6, From: 1, To: 10, Compared: 4, Gaps: [][2]int64{{3, 6}}})
}

func TestForgedFileAndForgedTrailDoNotAgree(t *testing.T) {
	t.Parallel()
	const last = 10
	for name, c := range map[string]struct {
		forge func(h *fixture, file []string) []string
		fault opstore.AuditFault
		seq   int64
	}{
		"line changed": {func(_ *fixture, f []string) []string {
			f[6] = strings.Replace(f[6], "owner-", "forged-", 1)
			return f
		}, opstore.AuditAltered, 7},
		"line changed, with its hash": {func(_ *fixture, f []string) []string {
			f[6] = rehashed(strings.Replace(f[6], "owner-", "forged-", 1))
			return f
		}, opstore.AuditAltered, 7},
		"newest line changed, with its hash": {func(_ *fixture, f []string) []string {
			f[last-1] = rehashed(strings.Replace(f[last-1], "owner-", "forged-", 1))
			return f
		}, opstore.AuditAltered, last},
		"line removed":      {func(_ *fixture, f []string) []string { return append(f[:6], f[7:]...) }, opstore.AuditMissing, 7},
		"line made garbage": {func(_ *fixture, f []string) []string { f[6] = "garbage"; return f }, opstore.AuditMissing, 7},
		"lines swapped":     {func(_ *fixture, f []string) []string { f[6], f[7] = f[7], f[6]; return f }, opstore.AuditMissing, 7},
		"line twice":        {func(_ *fixture, f []string) []string { return append(f, f[6]) }, opstore.AuditOutOfOrder, 7},
		"whole trail forged in ZooKeeper": {func(h *fixture, f []string) []string {
			hash := reforge(h, 7, last, func(line string) string { return strings.Replace(line, "owner-", "forged-", 1) })
			setHead(h, hash, last)
			return f
		}, opstore.AuditAltered, 7},
		"trail in ZooKeeper cut off": {func(h *fixture, f []string) []string {
			setBack(h, last-1)
			h.Delete(h.node(last))
			return f
		}, opstore.AuditHeadMismatch, last - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			l := logOf(t, h.Client(), 0)
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			appendAll(t, l, 1, last)
			_, stop := ships(t, l, file)
			shipped(t, file, "act-10")
			stop()
			fileHolds(t, file, l, audit.FileReport{Checked: last, From: 1, To: last, Compared: last})

			// when
			forged := c.forge(h, lines(t, file))
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(forged, "\n")+"\n"), 0o600))

			// then
			report, err := audit.VerifyFile(t.Context(), file, l)
			require.NoError(t, err)
			require.NotNil(t, report.Broken)
			t.Log(report.Broken)
			require.Equal(t, c.fault, report.Broken.Fault)
			require.Equal(t, c.seq, report.Broken.Seq)
		})
	}
}

func TestBypassIsOnRecordInTheFileWhileZooKeeperDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	l := logOf(t, h.Client(harness.Servers("127.0.0.1:1")), 0)
	bypass := opstore.AuditEntry{
		Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent, By: "ana", Override: "INC-1", Scope: "s",
		After: map[string]string{"bypass": "true"},
	}
	a, err := audit.New(audit.Config{Trail: l, File: name, Timeout: 100 * time.Millisecond})
	require.NoError(t, err)
	without, err := audit.New(audit.Config{Trail: l, Timeout: 100 * time.Millisecond})
	require.NoError(t, err)

	// then without a file it is refused, and so is all else with one
	require.Error(t, without.Audit(t.Context(), bypass))
	freeze := bypass
	freeze.After = map[string]string{"frozen": "true"}
	require.Error(t, a.Audit(t.Context(), freeze))
	require.NoError(t, a.Audit(t.Context(), bypass))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(text, []byte("\n")))
	require.Contains(t, string(text), `{"unchained":true,"seq":0,`)
	fileHolds(t, name, nil, audit.FileReport{Unchained: 1})
	over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.Error(t, a.Close(over), "the trail does not have it")
	require.NoError(t, without.Close(t.Context()))
}
