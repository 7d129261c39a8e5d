package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var hashMember = regexp.MustCompile(`"hash":"([0-9a-f]*)"`)

// rehashed returns a line with the hash that it should have.
func rehashed(line string) string {
	sum := sha256.Sum256([]byte(hashMember.ReplaceAllString(line, `"hash":""`)))
	return hashMember.ReplaceAllString(line, `"hash":"`+hex.EncodeToString(sum[:])+`"`)
}

func hashOf(line string) string { return hashMember.FindStringSubmatch(line)[1] }

// TestForgeriesAreFound does to a log of ten records, of which the last six are
// kept, what somebody could do who may write the nodes.
func TestForgeriesAreFound(t *testing.T) {
	t.Parallel()
	const first, last = 5, 10
	// forged lets somebody else be who did it.
	forged := func(line string) string { return strings.Replace(line, "owner-", "somebody-", 1) }
	same := func(line string) string { return line }
	for name, c := range map[string]struct {
		do    func(h *fixture)
		seq   int64
		fault opstore.AuditFault
	}{
		"changed": {func(h *fixture) { h.change(h.node(7), forged) }, 7, opstore.AuditAltered},
		"changed, with its hash": {func(h *fixture) {
			h.change(h.node(7), func(line string) string { return rehashed(forged(line)) })
		}, 7, opstore.AuditAltered},
		"changed, with its hash, the node made anew": {func(h *fixture) {
			line, _ := h.read(h.node(7))
			h.Delete(h.node(7))
			h.put(h.node(7), rehashed(forged(line)))
		}, 8, opstore.AuditAltered},
		"written again as it is": {func(h *fixture) { h.change(h.node(7), same) }, 7, opstore.AuditAltered},
		"made anew as it is": {func(h *fixture) {
			line, _ := h.read(h.node(7))
			h.Delete(h.node(7))
			h.put(h.node(7), line)
		}, 7, opstore.AuditAltered},
		"nonsense":           {func(h *fixture) { h.write(h.node(7), "{}") }, 7, opstore.AuditAltered},
		"removed":            {func(h *fixture) { h.Delete(h.node(7)) }, 7, opstore.AuditMissing},
		"oldest removed":     {func(h *fixture) { h.Delete(h.node(first)) }, first, opstore.AuditMissing},
		"newest removed":     {func(h *fixture) { h.Delete(h.node(last)) }, last, opstore.AuditMissing},
		"all removed":        {func(h *fixture) { removeFrom(h, first, last) }, first, opstore.AuditMissing},
		"swapped":            {swap, 6, opstore.AuditOutOfOrder},
		"put in":             {func(h *fixture) { h.put(h.node(last+1), "{}") }, last, opstore.AuditHeadMismatch},
		"put in front":       {func(h *fixture) { h.put(h.node(1), "{}") }, last, opstore.AuditHeadMismatch},
		"newest changed":     {func(h *fixture) { reforge(h, last, last, forged) }, last, opstore.AuditHeadMismatch},
		"all from 7 changed": {func(h *fixture) { setHead(h, reforge(h, 7, last, forged), last) }, last, opstore.AuditHeadMismatch},
		"head set back, newest removed": {func(h *fixture) {
			setBack(h, last-1)
			h.Delete(h.node(last))
		}, last - 1, opstore.AuditHeadMismatch},
		"head set back": {func(h *fixture) { setBack(h, last-1) }, last - 1, opstore.AuditHeadMismatch},
		"head says nothing was": {func(h *fixture) {
			removeFrom(h, first, last)
			h.write(h.head(), "")
		}, 0, opstore.AuditHeadMismatch},
		"head names another hash": {func(h *fixture) {
			h.change(h.head(), func(head string) string { return strings.Replace(head, `"hash":"`, `"hash":"00`, 1) })
		}, last, opstore.AuditHeadMismatch},
		"head written again": {func(h *fixture) { h.change(h.head(), same) }, last, opstore.AuditHeadMismatch},
		"head made anew": {func(h *fixture) { // with the version that it should have, but not at its time
			head, _ := h.read(h.head())
			removeThenPut(h, head, last)
		}, last, opstore.AuditHeadMismatch},
		"anchor changed": {func(h *fixture) {
			h.change(h.head(), func(head string) string { return strings.Replace(head, `"anchor":"`, `"anchor":"00`, 1) })
		}, first, opstore.AuditAnchorMismatch},
		"oldest removed, and the head says so": {func(h *fixture) {
			h.Delete(h.node(first))
			h.change(h.head(), func(head string) string { return strings.Replace(head, `"first":5`, `"first":6`, 1) })
		}, first + 1, opstore.AuditAnchorMismatch},
		"oldest removed, and the head says so, with the anchor": {func(h *fixture) {
			line, _ := h.read(h.node(first))
			head, _ := h.read(h.head())
			h.Delete(h.node(first))
			h.write(h.head(), regexp.MustCompile(`"first":5,"anchor":"\w*"`).ReplaceAllString(head, `"first":6,"anchor":"`+hashOf(line)+`"`))
		}, last, opstore.AuditHeadMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// given
			h := newFixture(t)
			l := logOf(t, h.Client(), last-first+1)
			appendAll(t, l, 1, last)
			holds(t, l, first, last)

			// when
			c.do(h)

			// then
			report := verified(t, l)
			require.NotNil(t, report.Broken)
			t.Log(report.Broken)
			require.Equal(t, c.fault, report.Broken.Fault)
			require.Equal(t, c.seq, report.Broken.Seq)
			require.NotEmpty(t, report.Broken.Why)
		})
	}
}

func swap(h *fixture) {
	six, _ := h.read(h.node(6))
	seven, _ := h.read(h.node(7))
	h.write(h.node(6), seven)
	h.write(h.node(7), six)
}

func removeFrom(h *fixture, from, to int) {
	for n := from; n <= to; n++ {
		h.Delete(h.node(n))
	}
}

// reforge changes a record, and makes all from there to the end anew so that
// they continue each other. It returns the hash of the last.
func reforge(h *fixture, from, to int, change func(string) string) (hash string) {
	lines := make([]string, 0, to-from+1)
	for n := from; n <= to; n++ {
		line, _ := h.read(h.node(n))
		if n == from {
			line = change(line)
		} else {
			line = regexp.MustCompile(`"prev":"\w*"`).ReplaceAllString(line, `"prev":"`+hash+`"`)
		}
		line = rehashed(line)
		lines, hash = append(lines, line), hashOf(line)
	}
	for i, line := range lines {
		h.Delete(h.node(from + i))
		h.put(h.node(from+i), line)
	}
	return hash
}

func setHead(h *fixture, hash string, seq int) {
	h.change(h.head(), func(head string) string {
		return regexp.MustCompile(`"seq":\d+,"hash":"\w*"`).ReplaceAllString(head, fmt.Sprintf(`"seq":%d,"hash":"%s"`, seq, hash))
	})
}

// setBack lets the head name an earlier record.
func setBack(h *fixture, seq int) {
	line, _ := h.read(h.node(seq))
	setHead(h, hashOf(line), seq)
}

// removeThenPut makes the whole log anew, written as often as it should be.
func removeThenPut(h *fixture, head string, last int) {
	names := h.Children(h.head() + "/log")
	lines := map[string]string{}
	for _, name := range names {
		lines[name], _ = h.read(h.head() + "/log/" + name)
		h.Delete(h.head() + "/log/" + name)
	}
	h.Delete(h.head() + "/log")
	h.Delete(h.head())
	h.put(h.head(), "")
	h.put(h.head()+"/log", "")
	for n := 1; n <= last; n++ {
		h.write(h.head(), head)
	}
	for n := 1; n <= last; n++ {
		name := fmt.Sprintf("%010d", n)
		if line, ok := lines[name]; ok {
			h.put(h.head()+"/log/"+name, line)
		}
	}
}

func TestNodesThatAreNoRecordsAreNamedAndIgnored(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(), 0)
	appendAll(t, l, 1, 2)
	h.put(h.head()+"/log/note", "")
	h.put(h.head()+"/log/3", "")
	appendAll(t, l, 3, 3)
	require.Equal(t, opstore.AuditReport{Checked: 3, From: 1, To: 3, Foreign: []string{"3", "note"}}, verified(t, l))
}

func TestNothingIsAppendedOverARecordThatTheHeadDoesNotKnow(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(), 0)
	appendAll(t, l, 1, 3)
	setBack(h, 2)

	// when
	_, err := l.Append(t.Context(), entry(4))

	// then
	var broken *opstore.AuditBrokenError
	require.ErrorAs(t, err, &broken)
	require.Equal(t, opstore.AuditHeadMismatch, broken.Fault)
	kept, _ := h.read(h.node(3))
	require.Contains(t, kept, "owner-3")
}

func TestTamperedOldestRecordDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(), 3)
	appendAll(t, l, 1, 3)
	h.Delete(h.node(1))
	h.write(h.node(2), "nonsense")
	appendAll(t, l, 4, 6)

	// then it can be read, and what the head tells of what was done to it stays
	records, _, err := l.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	require.Equal(t, []string{"act-4", "act-5", "act-6"}, acts(records))
	holds(t, l, 4, 6)
}
