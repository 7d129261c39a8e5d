package lock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestRecordIsReadableAndComesBackWhole(t *testing.T) {
	c := unconnected(t)
	for want, r := range map[string]Request{
		`"priority":40,"lease_timeout_ms":600000,"cleanup_timeout_ms":1000,"waiting_timeout_ms":0,"forceful":true,"message":"nightly","traceparent":"00-x"`: {
			Identity: priority.Identity{Message: "nightly", Trace: "00-x"}, Terms: priority.Terms{Priority: 40, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Second, WaitingTimeout: new(time.Duration(0)), Forceful: true},
		},
		`"priority":0,"lease_timeout_ms":60000,"cleanup_timeout_ms":0,"class":"tenant/{id}/billing"`: {Terms: priority.Terms{LeaseTimeout: time.Minute}, Identity: priority.Identity{Class: "tenant/{id}/billing"}},
		`"priority":0,"lease_timeout_ms":60000,"cleanup_timeout_ms":0,"min_runtime_ms":20001,"preempt_delta":10`: {
			Terms: priority.Terms{LeaseTimeout: time.Minute, MinRuntime: 20*time.Second + 1, PreemptDelta: 10},
		},
		`"priority":0,"lease_timeout_ms":60000,"cleanup_timeout_ms":0,"min_runtime_ms":60000,"lease_only":true,"never_preempts":true`: {
			Terms: priority.Terms{LeaseTimeout: time.Minute, MinRuntime: time.Minute, NeverPreempts: true},
		},
	} {
		r.Owner = "reindex"
		rec := newRecord(c, r)
		rec.Host, rec.PID = "h3", 811
		require.JSONEq(t, `{"format":1,"owner":"reindex","host":"h3","pid":811,"mode":"exclusive",`+want+`}`, string(rec.encode()))
		back, err := decodeContender(rec.encode())
		require.NoError(t, err)
		require.Equal(t, rec, back)
		told := back.contender(child{}, &zkclient.Stat{})
		require.Equal(t, []any{r.Class, r.NeverPreempts}, []any{told.Class, told.NeverPreempts})
		require.Equal(t, (r.MinRuntime + time.Millisecond - 1).Truncate(time.Millisecond), told.MinRuntime)
	}
}

func TestClassThatCannotBeOneIsNotShown(t *testing.T) {
	for _, class := range []string{strings.Repeat("x", priority.MaxClass+1), "a\x00b", "a\nb"} {
		rec := contenderRecord{Format: znode.RecordFormat, Class: class}
		require.Empty(t, rec.contender(child{}, &zkclient.Stat{}).Class, "%q", class)
		require.ErrorContains(t, priority.CheckClass(class), "class: ")
		require.ErrorContains(t, (&Request{Identity: priority.Identity{Class: class}}).complete(unconnected(t)), "class: ")
	}
	require.NoError(t, priority.CheckClass(strings.Repeat("x", priority.MaxClass)))
	require.NoError(t, priority.CheckClass(""))
}

func TestMinimumRuntimeCountsFromTheGrantAfterLaterWrites(t *testing.T) {
	const second = int64(1000)
	rec := contenderRecord{Granted: true, LeaseTimeout: 60 * second}
	rec.protect(10 * time.Second)
	grant := &zkclient.Stat{Mtime: 50 * second}
	require.Equal(t, 4*time.Second, rec.remaining(grant, 56*second).MinRuntimeLeft)
	require.Zero(t, rec.remaining(grant, 60*second).MinRuntimeLeft)
	require.Zero(t, rec.remaining(grant, 99*second).MinRuntimeLeft)
	require.Equal(t, 10*time.Second, rec.remaining(grant, 20*second).MinRuntimeLeft, "servers' clocks differ")

	// a new lease does not begin it anew
	rec.freeze(grant)
	rec.LeaseFrom = 0
	extended := &zkclient.Stat{Mtime: 55 * second}
	require.Equal(t, 4*time.Second, rec.remaining(extended, 56*second).MinRuntimeLeft)

	// but it can be begun anew
	rec.freeze(extended)
	rec.protect(20 * time.Second)
	rec.RunsFrom = runsFromLastWrite
	protected := &zkclient.Stat{Mtime: 58 * second}
	require.Equal(t, 19*time.Second, rec.remaining(protected, 59*second).MinRuntimeLeft)
	rec.freeze(protected)
	later := &zkclient.Stat{Mtime: 70 * second}
	require.Equal(t, 7*time.Second, rec.remaining(later, 71*second).MinRuntimeLeft)
}

func TestMinimumRuntimeEndsWithTheLeaseAtTheLatest(t *testing.T) {
	const second = int64(1000)
	rec := contenderRecord{Granted: true, LeaseTimeout: 10 * second}
	rec.protect(10 * time.Second)
	require.True(t, rec.LeaseOnly)
	grant := &zkclient.Stat{Mtime: 50 * second}
	require.Equal(t, 3*time.Second, rec.remaining(grant, 57*second).MinRuntimeLeft)
	rec.freeze(grant)
	rec.LeaseTimeout, rec.LeaseFrom = 60*second, 0
	extended := &zkclient.Stat{Mtime: 58 * second}
	require.Equal(t, 58*time.Second, rec.remaining(extended, 60*second).MinRuntimeLeft, "it is the lease, however long")

	short := contenderRecord{Granted: true, LeaseTimeout: 60 * second}
	short.protect(30 * time.Second)
	short.LeaseTimeout = 5 * second
	require.Equal(t, 5*time.Second, short.remaining(grant, 50*second).MinRuntimeLeft, "the lease is shorter by now")
}

func TestTokenAndLeaseStayThoseOfTheGrantAfterLaterWrites(t *testing.T) {
	rec := contenderRecord{Granted: true, LeaseTimeout: 1000}
	grant := &zkclient.Stat{Mzxid: 7, Mtime: 50_000}
	require.Equal(t, Token(7), rec.token(grant))

	rec.freeze(grant)
	rec.ask(askingNote{ID: "a", Reason: priority.Outranked})
	second := &zkclient.Stat{Mzxid: 9, Mtime: 50_400}
	require.Equal(t, Token(7), rec.token(second))
	require.Equal(t, 500*time.Millisecond, rec.leaseLeft(second, 50_500))
	require.Equal(t, int64(50_400), rec.Preempt[0].at(second))

	rec.freeze(second)
	rec.ask(askingNote{ID: "b", Reason: priority.Outranked})
	third := &zkclient.Stat{Mzxid: 12, Mtime: 50_900}
	require.Equal(t, Token(7), rec.token(third))
	require.Equal(t, int64(50_400), rec.Preempt[0].at(third), "the first note keeps its own time")
	require.Equal(t, int64(50_900), rec.Preempt[1].at(third))

	require.True(t, rec.withdraw("a"))
	require.False(t, rec.withdraw("a"))
	require.Len(t, rec.Preempt, 1)
}

func TestWaitersRecordIsNotFrozen(t *testing.T) {
	rec := contenderRecord{}
	rec.freeze(&zkclient.Stat{Mzxid: 7, Mtime: 50})
	require.Zero(t, rec.Token)
	require.Zero(t, rec.LeaseFrom)
}

func TestLeaseLeftStaysWithinTheLeaseWhenServersClocksDiffer(t *testing.T) {
	rec := contenderRecord{Granted: true, LeaseTimeout: 1000}
	stat := &zkclient.Stat{Mtime: 50_000}
	require.Equal(t, time.Second, rec.leaseLeft(stat, 40_000))
	require.Zero(t, rec.leaseLeft(stat, 60_000))
}

func TestOneNoteForEachRequesterAndReason(t *testing.T) {
	var rec contenderRecord
	rec.ask(askingNote{ID: "a", Reason: priority.Outranked, Grace: 1})
	rec.ask(askingNote{ID: "a", Reason: priority.Outranked, Grace: 2})
	rec.ask(askingNote{ID: "a", Reason: priority.LeaseExpired, Grace: 3})
	require.Len(t, rec.Preempt, 2)
	require.Equal(t, int64(2), rec.Preempt[0].Grace)
}

func TestASoleHolderIsWrittenLikeAnyRecord(t *testing.T) {
	guid := znode.NewGUID()
	require.Equal(t, string(lockRecord{Format: znode.RecordFormat, Holders: []string{guid}}.encode()), string(soleHolder(guid)))
}
