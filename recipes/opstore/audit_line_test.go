package opstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

func someAuditRecord(change ...func(*AuditRecord)) AuditRecord {
	r := AuditRecord{
		Seq: 7, At: time.Date(2026, 11, 21, 12, 0, 0, 5e6, time.UTC), Prev: strings.Repeat("ab", 32), ID: "f00d", Host: "h1", PID: 12,
		AuditEntry: AuditEntry{Act: "x-1", Action: AuditBreak, Phase: AuditIntent, Scope: "cluster/orders", By: "ana", Reason: "INC-4411 <now>"},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func TestRecordIsWhatItsLineSays(t *testing.T) {
	// when
	sealed := someAuditRecord().sealed()
	read, err := ParseAuditRecord(sealed.Line())

	// then
	require.NoError(t, err)
	require.Equal(t, sealed, read)
	require.Len(t, read.Hash, 64)
	require.NotContains(t, string(read.Line()), "\n")
}

func TestEveryByteOfARecordCounts(t *testing.T) {
	line := someAuditRecord().sealed().Line()
	rapid.Check(t, func(t *rapid.T) {
		altered := bytes.Clone(line)
		at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
		altered[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		_, err := ParseAuditRecord(altered)
		require.Error(t, err, string(altered))
	})
	for _, more := range []string{" ", "\n", "{}"} {
		_, err := ParseAuditRecord(append(bytes.Clone(line), more...))
		require.Error(t, err)
	}
}

func TestMembersOfALaterProgramAreKeptAndCount(t *testing.T) {
	// given a record of a program that knows more
	with := func(value, hash string) []byte {
		line := znode.Encode(someAuditRecord(func(r *AuditRecord) { r.Hash = hash }))
		return append(line[:len(line)-1], fmt.Sprintf(`,"later":%q}`, value)...)
	}
	hash := auditHash(with("x", ""))

	// when
	r, err := ParseAuditRecord(with("x", hash))

	// then
	require.NoError(t, err)
	require.Contains(t, string(r.Line()), `"later":"x"`)
	_, err = ParseAuditRecord(with("y", hash))
	require.ErrorIs(t, err, ErrAuditAltered)
}

func TestLongEntriesAreCutAndSaySo(t *testing.T) {
	// given
	long := strings.Repeat("ä", 20_000)
	e := AuditEntry{
		Act: long, Action: AuditTakeover, Phase: AuditOutcome, Scope: long, Job: long, By: long, Reason: long, Error: long,
		Requestor: &AuditParty{ID: long, Owner: long, Host: long}, Before: map[string]string{}, After: map[string]string{long: long},
	}
	for i := range 1000 {
		e.Victims = append(e.Victims, AuditParty{ID: fmt.Sprint(i), Owner: long, Host: long})
		e.Before[fmt.Sprint(i)] = long
	}

	// when
	short := e.fit()
	r := AuditRecord{AuditEntry: short}.sealed()

	// then
	require.Less(t, len(r.Line()), 100_000)
	require.True(t, strings.HasSuffix(short.Reason, "…"))
	require.Less(t, len(short.Reason), 1010)
	require.Len(t, short.Victims, maxAuditVictims)
	require.Contains(t, short.Error, "900 more victims are left out")
	require.Equal(t, "968 more are left out", short.Before["…"])
	require.True(t, strings.HasSuffix(short.Victims[0].Owner, "…"))
	require.Len(t, e.Victims, 1000, "the entry itself is as it was")
	_, err := ParseAuditRecord(r.Line())
	require.NoError(t, err)
}

func TestTextThatIsNoneIsReplaced(t *testing.T) {
	r := AuditRecord{AuditEntry: AuditEntry{Reason: "\xff\xfe", By: "a\xc0", Victims: []AuditParty{{Owner: "\xff"}}}.fit()}.sealed()
	read, err := ParseAuditRecord(r.Line())
	require.NoError(t, err)
	require.Equal(t, r, read)
}

func TestEntryNeedsActionPhaseAndWho(t *testing.T) {
	err := AuditEntry{Phase: "perhaps"}.validate()
	require.EqualError(t, err, "lockkeeper: action: is missing; write what is done, for example takeover\n"+
		"lockkeeper: phase: is missing; write intent or outcome\nlockkeeper: by: is missing; write who does it")
}

func TestQueryForScopesAndPeople(t *testing.T) {
	r := someAuditRecord(func(r *AuditRecord) { r.Identity = "digest:Operator" })
	for q, want := range map[AuditQuery]bool{
		{}:                         true,
		{Scope: "cluster/*"}:       true,
		{Scope: "cluster/order"}:   false,
		{By: "AN"}:                 true,
		{By: "operator"}:           true,
		{By: "bob"}:                false,
		{Since: r.At}:              true,
		{Since: r.At.Add(1)}:       false,
		{Scope: "*", By: "digest"}: true,
	} {
		require.Equal(t, want, q.Wants(r), "%+v", q)
	}
	require.False(t, AuditQuery{Scope: "a*"}.Wants(AuditRecord{}))
}
