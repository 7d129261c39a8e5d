package audit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func TestEmptyLogIsWhole(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 0)
	require.Equal(t, opstore.AuditReport{}, verified(t, l))
	records, _, err := l.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	require.Empty(t, records)
	last, err := l.Last(t.Context())
	require.NoError(t, err)
	require.Zero(t, last)
}

func TestRecordSaysWhoWroteItAndContinuesTheOneBefore(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 0)

	// when
	before := time.Now().Add(-time.Second)
	first, err := l.Append(t.Context(), entry(1))
	require.NoError(t, err)
	unnamed := entry(2)
	unnamed.Act = ""
	second, err := l.Append(t.Context(), unnamed)
	require.NoError(t, err)

	// then
	require.EqualValues(t, 1, first.Seq)
	require.Empty(t, first.Prev)
	require.Equal(t, first.Hash, second.Prev)
	require.NotZero(t, second.PID)
	require.NotEmpty(t, second.Act, "an act is filled in")
	require.WithinRange(t, second.At, before, time.Now().Add(time.Second))
	records, _, err := l.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	require.Equal(t, []opstore.AuditRecord{first, second}, records)
	holds(t, l, 1, 2)
}

func TestKeepIsBounded(t *testing.T) {
	t.Parallel()
	c := newFixture(t).Client()
	for _, keep := range []int{-1, opstore.MaxAuditKeep + 1} {
		_, err := c.AuditLog(keep)
		var bad *lock.RequestError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "keep", bad.Field)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 0)
	appendAll(t, l, 1, 300) // more than are read at once
	third, _, err := l.Read(t.Context(), opstore.AuditQuery{From: 298, Limit: 1})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		q    opstore.AuditQuery
		want []string
	}{
		"newest":            {opstore.AuditQuery{Limit: 2}, []string{"act-299", "act-300"}},
		"from":              {opstore.AuditQuery{From: 299}, []string{"act-299", "act-300"}},
		"from beyond":       {opstore.AuditQuery{From: 999}, []string{}},
		"by":                {opstore.AuditQuery{By: "OWNER-299"}, []string{"act-299"}},
		"scope and limit":   {opstore.AuditQuery{Scope: "cluster/*/0", Limit: 2}, []string{"act-297", "act-300"}},
		"by none":           {opstore.AuditQuery{By: "none"}, []string{}},
		"since the newest":  {opstore.AuditQuery{Since: third[0].At, From: 300}, []string{"act-300"}},
		"since the morning": {opstore.AuditQuery{Since: time.Now().Add(time.Hour)}, []string{}},
	} {
		records, _, err := l.Read(t.Context(), c.q)
		require.NoError(t, err)
		require.Equal(t, c.want, acts(records), name)
	}
	records, _, err := l.Read(t.Context(), opstore.AuditQuery{Since: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Len(t, records, 300)
}

func TestNoMoreAreKeptThanWantedAndTheRestVerifies(t *testing.T) {
	t.Parallel()
	const keep, clients, each = 10, 3, 40
	h := newFixture(t)
	onlooker := logOf(t, h.Client(), keep)
	appendAll(t, onlooker, 1, 1)
	var all sync.WaitGroup
	errs := make(chan error, clients*each)
	for range clients {
		l := logOf(t, h.Client(), keep)
		for range 2 { // who share a log take turns
			all.Go(func() {
				for n := range each / 2 {
					_, err := l.Append(t.Context(), entry(n))
					errs <- err
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()

	// then while they append there are never more, and it verifies all the time
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		names := h.Children(h.head() + "/log")
		require.LessOrEqual(t, len(names), keep)
		report := verified(t, onlooker)
		require.Nil(t, report.Broken)
		require.NotZero(t, report.Checked)
	}
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	holds(t, onlooker, clients*each+2-keep, clients*each+1)
}

func TestLogThatIsTooLongGetsShorterWithEachRecord(t *testing.T) {
	t.Parallel()
	c := newFixture(t).Client()
	appendAll(t, logOf(t, c, 0), 1, 100)

	// when fewer are to be kept from now on
	l := logOf(t, c, 20)
	appendAll(t, l, 101, 101)
	holds(t, l, 33, 101)
	appendAll(t, l, 102, 104)

	// then
	holds(t, l, 85, 104)
}

func TestFollowTellsEachRecordOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const before, after = 150, 60
	h := newFixture(t)
	writer := logOf(t, h.Client(), 0)
	follower := h.Client()
	told := make(chan int64, before+after)
	ctx, stop := context.WithCancelCause(t.Context())
	log := logOf(t, follower, 0)
	follow := harness.Run(t, "Follow", func(context.Context) error { // from before there is a log on
		return log.Follow(ctx, 0, func(r opstore.AuditRecord) error { told <- r.Seq; return nil })
	})
	appendAll(t, writer, 1, before)

	// when the session of the one who follows ends meanwhile
	harness.Receive(t, told, "nothing came")
	h.Expire(follower)
	appendAll(t, writer, before+1, before+after)

	// then
	for want := int64(2); want <= before+after; want++ {
		require.Equal(t, want, harness.Receive(t, told, "nothing came"))
	}
	enough := errors.New("enough")
	stop(enough)
	require.ErrorIs(t, follow.Err(), enough)
	require.Empty(t, told)
}

func TestFollowTellsOfRecordsThatAreNotKeptAnyMore(t *testing.T) {
	t.Parallel()
	l := logOf(t, newFixture(t).Client(), 5)
	appendAll(t, l, 1, 12)

	// when
	err := l.Follow(t.Context(), 3, func(opstore.AuditRecord) error { return errors.New("unexpected") })

	// then
	var gap *opstore.AuditGapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, opstore.AuditGapError{From: 3, To: 7}, *gap)
	enough := errors.New("enough")
	var told []int64
	err = l.Follow(t.Context(), gap.To+1, func(r opstore.AuditRecord) error {
		if told = append(told, r.Seq); r.Seq == 12 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, []int64{8, 9, 10, 11, 12}, told)
}

func TestFollowTellsOfWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(), 0)
	appendAll(t, l, 1, 5)
	h.Delete(h.node(2))
	h.write(h.node(4), "nonsense")

	broken := func(from int64) *opstore.AuditBrokenError {
		var e *opstore.AuditBrokenError
		require.ErrorAs(t, l.Follow(t.Context(), from, func(opstore.AuditRecord) error { return nil }), &e)
		return e
	}
	e := broken(1)
	require.Equal(t, opstore.AuditMissing, e.Fault)
	require.EqualValues(t, 3, e.Next())
	e = broken(e.Next())
	require.Equal(t, opstore.AuditAltered, e.Fault)
	require.EqualValues(t, 5, e.Next())
	e = broken(9)
	require.Equal(t, opstore.AuditHeadMismatch, e.Fault)
	require.EqualValues(t, 1, e.Next())
}
