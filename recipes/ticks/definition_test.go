package ticks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func claimAs(t *testing.T, l *Ledger, instant time.Time, definition string) Claim {
	t.Helper()
	claim, err := l.Claim(t.Context(), "job", instant, Ask{Definition: definition})
	require.NoError(t, err)
	if claim.Verdict == Claimed {
		ended(t, l, claim.Run, Ran)
	}
	return claim
}

func definitions(all []Definition) (names []string) {
	for _, d := range all {
		names = append(names, d.Fingerprint)
	}
	return names
}

// Given two teams with a nightly job of one name, one of which always comes
// first, then both learn of it, and so does a client that lists jobs.
func TestTwoDefinitionsOfOneJobAreNoticedByBothSides(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		server := newTickServer()
		a, _ := server.ledger("a")
		b, session := server.ledger("b")
		day := int((24 * time.Hour).Seconds())

		// the first night: b gets nothing, and knows why at once
		require.Empty(t, claimAs(t, a, at(day), "1-aa").Differing)
		session.next(0, f)
		late := claimAs(t, b, at(day), "1-bb")
		require.Equal(t, Taken, late.Verdict)
		require.True(t, late.Compared)
		require.Equal(t, []string{"1-aa"}, definitions(late.Differing))
		require.Equal(t, "a", late.Differing[0].Owner)
		require.Equal(t, "b", late.By.Owner)
		require.ElementsMatch(t, []string{"1-aa", "1-bb"}, definitions(state(t, a).Differing))

		// the second one: a knows it, too
		server.now = server.now.Add(24 * time.Hour)
		require.Equal(t, []string{"1-bb"}, definitions(claimAs(t, a, at(2*day), "1-aa").Differing))
	}
}

func TestDefinitionThatTakesThePlaceOfAnotherOneIsNoDifference(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	claimAs(t, a, at(1), "1-old")
	claimAs(t, a, at(2), "1-old")
	for i := 3; i < 9; i++ {
		require.Empty(t, claimAs(t, a, at(i), "1-new").Differing, "tick %d", i)
		require.Empty(t, state(t, a).Differing)
	}
}

func TestDaemonsOfOneDefinitionOrOfNoneDoNotDiffer(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, session := server.ledger("b")
	claimAs(t, a, at(1), "1-aa")
	before := session.requests.Load()
	claim := claimAs(t, b, at(1), "1-aa")
	require.True(t, claim.Compared)
	require.Empty(t, claim.Differing)
	require.EqualValues(t, 1, session.requests.Load()-before, "who agrees writes nothing")

	require.False(t, claimAs(t, b, at(2), "").Compared)
	require.Empty(t, claimAs(t, b, at(3), "2-of another way to make one").Differing)
	require.Empty(t, claimAs(t, a, at(4), "1-aa").Differing)
	require.Empty(t, claimAs(t, b, at(5), "2-of another way to make one").Differing)
}

// Given a definition that is rolled out while the old one still runs, then the
// difference is over ten minutes and two ticks after the last old daemon.
func TestDifferenceOfARollingChangeEnds(t *testing.T) {
	server := newTickServer()
	old, _ := server.ledger("old")
	fresh, _ := server.ledger("new")
	tick := 0
	next := func() time.Time { tick += 60; server.now = server.now.Add(time.Minute); return at(tick) }
	claimAs(t, old, next(), "1-old")
	claimAs(t, fresh, next(), "1-new")
	require.NotEmpty(t, claimAs(t, old, next(), "1-old").Differing)
	require.NotEmpty(t, claimAs(t, fresh, next(), "1-new").Differing)
	minutes := 0
	for len(claimAs(t, fresh, next(), "1-new").Differing) > 0 {
		minutes++
		require.Less(t, minutes, 13)
	}
	require.Greater(t, minutes, 5)
	require.Empty(t, state(t, fresh).Differing)
}

func TestAProcessWithoutTicksRenewsItsDefinitionRarely(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, _ := server.ledger("b")
	writes, began := 0, server.now
	path, err := a.path("job")
	require.NoError(t, err)
	for i := 1; i <= 600; i++ { // each write takes a second or more
		claimAs(t, a, at(i), "1-aa")
		before := server.nodes[path].version
		require.NotEmpty(t, claimAs(t, b, at(i), "1-bb").Differing)
		if server.nodes[path].version != before {
			writes++
		}
	}
	elapsed := server.now.Sub(began)
	require.InDelta(t, float64(elapsed/definitionRenewal), writes, 2, elapsed)
}

// An older daemon drops what it does not know when it writes the record.
func TestRecordOfAnOlderDaemonOnlyForgetsDefinitions(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, _ := server.ledger("b")
	claimAs(t, a, at(1), "1-aa")
	claimAs(t, b, at(1), "1-bb")
	require.NotEmpty(t, state(t, a).Differing)
	path, err := a.path("job")
	require.NoError(t, err)
	server.mu.Lock()
	node := server.nodes[path]
	rec, err := decodeTick(node.data, node.stat())
	rec.Definitions = nil
	node.data = rec.encode()
	node.version++
	server.mu.Unlock()
	require.NoError(t, err)
	require.Empty(t, state(t, a).Differing)
	claimAs(t, a, at(2), "1-aa")
	require.NotEmpty(t, claimAs(t, b, at(2), "1-bb").Differing)
}
