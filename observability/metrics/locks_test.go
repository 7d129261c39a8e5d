package metrics

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Names that a request brings along and that no series may tell.
const (
	secretScope   = "tenant/planted-4711/billing"
	secretOwner   = "planted-owner"
	secretMessage = "planted-message"
	template      = "tenant/{id}/billing"
	traceparent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func subject(after time.Duration) lockguard.Subject {
	return lockguard.Subject{
		At: start.Add(after), ID: "planted-id", Scope: secretScope, Identity: priority.Identity{Class: template, Owner: secretOwner, Message: secretMessage, Hold: "planted-hold", Trace: traceparent}, Token: 4711,
	}
}

// after has the subject some seconds later.
func at(seconds float64) lockguard.Subject {
	return subject(time.Duration(seconds * float64(time.Second)))
}

func holder(class string) lock.Contender {
	return lock.Contender{ID: "planted-other", Identity: priority.Identity{Owner: "planted-holder", Host: "planted-host", Class: class, Message: secretMessage}}
}

// A tale is a request, and what is to be counted of it.
type tale struct {
	events []lockguard.Event
	want   map[string]float64 // histograms: how many, and with + before the name the sum
}

const (
	ofClass     = "lock.class=tenant/{id}/billing"
	waitedKey   = "lockkeeper.lock.wait.duration{" + ofClass + ",lock.mode=exclusive,outcome=%s,source=api}"
	heldKey     = "lockkeeper.lock.hold.duration{end=%s," + ofClass + ",lock.mode=exclusive,source=api}"
	cleanedKey  = "lockkeeper.cleanup.duration{" + ofClass + ",result=%s}"
	preemptKey  = "lockkeeper.preemption.duration{" + ofClass + ",result=%s}"
	countedKey  = "lockkeeper.preemption.count{preemptor.class=tenant/{id}/billing,reason=%s,victim.class=%s}"
	overlapsKey = "lockkeeper.overlap.detected{" + ofClass + "}"
)

func one(key string, args ...any) map[string]float64 {
	return map[string]float64{fmt.Sprintf(key, args...): 1}
}

func all(of ...map[string]float64) map[string]float64 {
	sum := map[string]float64{}
	for _, m := range of {
		maps.Copy(sum, m)
	}
	return sum
}

func tales() map[string]tale {
	lost := func(reason lock.LossReason) *lockguard.LostError {
		return &lockguard.LostError{Scope: secretScope, Reason: reason, By: "planted-by"}
	}
	preempted := &lockguard.PreemptedError{Scope: secretScope, By: "planted-by"}
	nothing := map[string]float64{}
	t := map[string]tale{
		"a request that is granted and released": {
			[]lockguard.Event{{Subject: at(0), Notice: lockguard.Waiting{}}, {Subject: at(2), Notice: lockguard.Acquired{Waited: 2 * time.Second}}, {Subject: at(5), Notice: lockguard.Released{Held: 3 * time.Second}}},
			all(one(waitedKey, "acquired"), one(heldKey, "released")),
		},
		"what only goes on is not counted": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lockguard.Waiting{}},
				{Subject: at(0), Notice: lock.Queued{Position: 1}},
				{Subject: at(0), Notice: lock.Blocked{}},
				{Subject: at(0), Notice: lock.Delayed{}},
				{Subject: at(0), Notice: lock.Displaced{}},
				{Subject: at(0), Notice: lock.Requeued{}},
				{Subject: at(0), Notice: lockguard.Frozen{}},
				{Subject: at(0), Notice: lockguard.Thawed{}},
				{Subject: at(0), Notice: lockguard.Overridden{}},
				{Subject: at(0), Notice: lockguard.ApprovalPending{}},
				{Subject: at(0), Notice: lockguard.ApprovalDecided{}},
				{Subject: at(0), Notice: lock.TakenOver{}},
				{Subject: at(0), Notice: lock.PreemptRequested{}},
				{Subject: at(0), Notice: lock.PreemptionWithdrawn{}},
				{Subject: at(0), Notice: lock.AtRisk{}},
				{Subject: at(0), Notice: lock.RiskOver{}},
				{Subject: at(0), Notice: lockguard.Extended{}},
				{Subject: at(0), Notice: lockguard.Downgraded{}},
				{Subject: at(0), Notice: lockguard.CleanupStarted{}},
				{Subject: at(0), Notice: lockguard.CleanupOverrun{}},
				{Subject: at(0), Notice: lockguard.Skipped{}},
				{Subject: at(0), Notice: lockguard.Stuck{}},
			}, nothing,
		},
		"work without the lock holds nothing": {
			[]lockguard.Event{{Subject: at(0), Notice: lockguard.Waiting{}}, {Subject: at(0), Notice: lockguard.Bypassed{}}, {Subject: at(9), Notice: lockguard.Released{Held: 9 * time.Second}}},
			one(waitedKey, "bypassed"),
		},
		"a preemption that the holder obeys": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lock.PreemptSent{Holder: holder(template), Reason: priority.Outranked, Grace: 10 * time.Second}},
				{Subject: at(4), Notice: lockguard.Acquired{Waited: 4 * time.Second}},
				{Subject: at(5), Notice: lockguard.Released{}},
			},
			all(one(countedKey, "outranked", template), one(preemptKey, "graceful"), one(waitedKey, "acquired"), one(heldKey, "released"),
				map[string]float64{"+" + fmt.Sprintf(preemptKey, "graceful"): 4}),
		},
		"a preemption of a holder that needs longer than it said": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lock.PreemptSent{Holder: holder(""), Reason: priority.LeaseExpired, Grace: time.Second}},
				{Subject: at(4), Notice: lockguard.Acquired{Waited: 4 * time.Second}},
			},
			all(one(countedKey, "lease", UndeclaredClass), one(preemptKey, "cleanup_timeout"), one(waitedKey, "acquired")),
		},
		"a preemption of several holders that ends with a takeover": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lock.PreemptSent{Holder: holder(template), Reason: priority.Outranked}},
				{Subject: at(1), Notice: lock.PreemptSent{Holder: holder(template), Reason: priority.Outranked, Grace: time.Second}},
				{Subject: at(3), Notice: lock.TakenOver{}},
				{Subject: at(3), Notice: lockguard.Acquired{Waited: 3 * time.Second}},
			},
			all(map[string]float64{fmt.Sprintf(countedKey, "outranked", template): 2, "+" + fmt.Sprintf(preemptKey, "forced"): 3}, one(preemptKey, "forced"), one(waitedKey, "acquired")),
		},
		"a preemption that is given up": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lock.PreemptSent{Holder: holder(template), Reason: priority.Outranked}},
				{Subject: at(3), Notice: lockguard.NotAcquired{Waited: 3 * time.Second, Err: &lock.CleanupPendingError{}}},
			},
			all(one(countedKey, "outranked", template), one(preemptKey, "given_up"), one(waitedKey, "cleanup_pending")),
		},
		"a cleanup in time": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lockguard.CleanupStarted{Deadline: start.Add(time.Minute)}},
				{Subject: at(2), Notice: lockguard.CleanupDone{Took: 2 * time.Second}},
				{Subject: at(2), Notice: lockguard.Released{Held: time.Minute, Cause: preempted}},
			},
			all(one(cleanedKey, "done"), one(heldKey, "preempted"), map[string]float64{"+" + fmt.Sprintf(cleanedKey, "done"): 2}),
		},
		"a cleanup that fails": {
			[]lockguard.Event{{Subject: at(0), Notice: lockguard.CleanupStarted{Deadline: start.Add(time.Minute)}}, {Subject: at(2), Notice: lockguard.CleanupDone{Err: errors.New(secretMessage)}}},
			one(cleanedKey, "failed"),
		},
		"a cleanup that overruns its grace": {
			[]lockguard.Event{{Subject: at(0), Notice: lockguard.CleanupStarted{Deadline: start.Add(time.Second)}}, {Subject: at(1), Notice: lockguard.CleanupOverrun{}}, {Subject: at(2), Notice: lockguard.CleanupDone{}}},
			one(cleanedKey, "overrun"),
		},
		"a cleanup during which the lock is taken": {
			[]lockguard.Event{
				{Subject: at(0), Notice: lockguard.CleanupStarted{Deadline: start.Add(time.Second)}},
				{Subject: at(1), Notice: lockguard.Lost{Held: time.Minute, Err: lost(lock.LossTaken)}},
				{Subject: at(2), Notice: lockguard.CleanupDone{}},
			},
			all(one(cleanedKey, "lost"), one(heldKey, "taken")),
		},
		"a cleanup after the loss": {
			[]lockguard.Event{{Subject: at(1), Notice: lockguard.Lost{Err: lost(lock.LossSession)}}, {Subject: at(1), Notice: lockguard.CleanupStarted{}}, {Subject: at(2), Notice: lockguard.CleanupDone{}}},
			all(one(cleanedKey, "lost"), one(heldKey, "session_lost")),
		},
	}
	for reason, end := range map[lock.LossReason]lockguard.End{
		lock.LossSession: "session_lost", lock.LossTaken: "taken", lock.LossDeleted: "deleted", lock.LossSuperseded: "superseded",
		lock.LossOverridden: "overridden", lock.LossBroken: "broken",
	} {
		t["a loss: "+string(reason)] = tale{[]lockguard.Event{{Subject: at(1), Notice: lockguard.Lost{Err: lost(reason)}}}, one(heldKey, end)}
	}
	for end, cause := range map[lockguard.End]error{
		"preempted": preempted, "lease_expired": &lockguard.LeaseExpiredError{}, "overridden": &lockguard.OverriddenError{},
		"shutdown": &lockguard.ShutdownError{Err: context.Canceled}, "interrupted": errors.New("planted"), "released": lockguard.ErrReleased,
		"session_lost": lost(lock.LossSession), // of another lock, held together with this one
	} {
		t["a release after: "+string(end)] = tale{[]lockguard.Event{{Subject: at(1), Notice: lockguard.Released{Cause: cause}}}, one(heldKey, end)}
	}
	for outcome, err := range map[lockguard.Outcome]error{
		"cancelled": fmt.Errorf("planted: %w", context.Canceled), "timeout": &lock.NotAcquiredError{}, "cleanup_pending": &lock.CleanupPendingError{},
		"evicted": &lock.EvictedError{}, "failed": errors.New("planted"), "frozen": &lockguard.FrozenError{Err: &lock.NotAcquiredError{}},
		"lost": lost(lock.LossSession), "preempted": preempted, "queue_full": &lock.QueueFullError{}, "unavailable": &lock.UnavailableError{},
	} {
		t["no lock: "+string(outcome)] = tale{[]lockguard.Event{{Subject: at(1), Notice: lockguard.NotAcquired{Err: err}}}, one(waitedKey, outcome)}
	}
	return t
}

func TestEveryEventIsCountedAsWhatItIs(t *testing.T) {
	met := map[string]bool{}
	for name, tale := range tales() {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			locks, err := NewLocks(b.provider.Meter(Scope))
			require.NoError(t, err)
			o := locks.observer(API)
			for _, event := range tale.events {
				met[reflect.TypeOf(event.Notice).Name()] = true
				o.observe(t.Context(), event)
			}
			seen := b.read(t)
			for key, want := range tale.want {
				require.InDelta(t, want, seen[key], 1e-9, "%s in %v", key, seen)
			}
			for key := range tale.want {
				delete(seen, key)
				delete(seen, "+"+key)
			}
			require.Empty(t, seen, "counted beside that")
			for _, last := range []string{"NotAcquired", "Released", "CleanupDone"} {
				if name := reflect.TypeOf(tale.events[len(tale.events)-1].Notice).Name(); name == last && (name != "CleanupDone" || tale.want[fmt.Sprintf(cleanedKey, "lost")] > 0) {
					require.Empty(t, o.open, "remembered of a request that has ended")
				}
			}
		})
	}
	require.ElementsMatch(t, eventKinds(t), slices.Collect(maps.Keys(met)), "an event of lockguard without a tale")
}

// eventKinds are the types of lockguard's sealed events.
func eventKinds(t *testing.T) []string {
	t.Helper()
	kinds := map[string]bool{}
	for _, name := range []string{"../../lockguard/event.go", "../../recipes/lock/request.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Kind" {
				kinds[f.Recv.List[0].Type.(*ast.Ident).Name] = true
			}
		}
	}
	for _, kept := range []string{"Joined", "Revised", "CleanupPending", "PendingOver"} { // no event has them
		require.True(t, kinds[kept])
		delete(kinds, kept)
	}
	return slices.Collect(maps.Keys(kinds))
}

// A thousand scopes, of as many classes, from processes that know each other's classes
// otherwise: what is shown stays below a bound that is known before.
func TestSeriesStayBelowABoundHoweverManyClassesThereAre(t *testing.T) {
	const most = 20
	scopes := 1000
	if testing.Short() {
		scopes = 200 // ten times as many as there is room for
	}
	b := newBoard(t)
	locks, err := NewLocks(b.provider.Meter(Scope), WithMaxClasses(most), WithClasses("declared/{x}"))
	require.NoError(t, err)
	o := locks.observer(Cron)
	for i := range scopes {
		for _, tale := range tales() {
			for _, event := range tale.events {
				o.observe(t.Context(), inClass(event, fmt.Sprintf("class/%d", i), fmt.Sprintf("other/%d", scopes-i)))
			}
		}
		locks.Overlap(t.Context(), fmt.Sprintf("class/%d", i))
	}
	const shown = most + 2 // _other and _undeclared
	bound := map[string]int{
		waitDuration: shown * 2 * len(lockguard.Outcomes()), holdDuration: shown * 2 * len(lockguard.Ends()),
		cleanupDuration: shown * len(cleanupResults()), preemptionDuration: shown * len(preemptionResults()),
		preemptionCount: (shown + most + 1) * 2, overlapDetected: shown,
	}
	series := map[string]int{}
	others, sum := map[string]float64{}, map[string]float64{}
	for key, n := range b.read(t) {
		name, _, _ := strings.Cut(key, "{")
		if !strings.HasPrefix(key, "+") {
			series[name]++
		}
		sum[name] += n
		if strings.Contains(key, OtherClass) {
			others[name] += n
		}
	}
	for name, n := range series {
		t.Logf("%d scopes, %d classes at most: %s has %d series, bound %d", scopes, most, name, n, bound[name])
		require.LessOrEqual(t, n, bound[name], name)
		require.Positive(t, others[name], "%s: what has no room is counted", name)
	}
	require.Len(t, series, len(bound))
	require.InDelta(t, scopes, sum[overlapDetected], 0)
}

// inClass returns an event of another class, whose holder has yet another one.
func inClass(event lockguard.Event, class, others string) lockguard.Event {
	event.Class, event.ID = class, class
	if n, ok := event.Notice.(lock.PreemptSent); ok {
		n.Holder.Class = others
		event.Notice = n
	}
	return event
}

func TestDeclaredClassesAreThereBeforeAnythingHappens(t *testing.T) {
	b := newBoard(t)
	locks, err := NewLocks(b.provider.Meter(Scope), WithClasses(template, ""))
	require.NoError(t, err)
	want := map[string]float64{overlapsKey: 0, fmt.Sprintf(countedKey, "outranked", template): 0, fmt.Sprintf(countedKey, "lease", template): 0}
	require.Equal(t, want, b.read(t))

	// later ones, and again the same
	locks.Overlap(t.Context(), template)
	locks.Declare(template, "report")
	seen := b.read(t)
	require.InDelta(t, 1, seen[overlapsKey], 0)
	require.Contains(t, seen, "lockkeeper.overlap.detected{lock.class=report}")
	require.Len(t, seen, 6)
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	b := newBoard(t)
	_, err := NewLocks(b.provider.Meter(Scope), WithMaxClasses(0))
	require.ErrorContains(t, err, "WithMaxClasses: 0 is none")
	_, err = Overlap(b.provider.Meter(Scope), WithMaxClasses(-1))
	require.Error(t, err)
	report, err := Overlap(b.provider.Meter(Scope))
	require.NoError(t, err)
	report(t.Context(), template)
	require.InDelta(t, 1, b.read(t)[overlapsKey], 0)
}

func TestManyGuardsAreCountedTogether(t *testing.T) {
	const guards, rounds = 8, 200
	b := newBoard(t)
	locks, err := NewLocks(b.provider.Meter(Scope), WithMaxClasses(4))
	require.NoError(t, err)
	observe := locks.Observer(API)
	var wg sync.WaitGroup
	for g := range guards {
		wg.Go(func() {
			for n := range rounds {
				s := at(0)
				s.ID, s.Class = fmt.Sprint(g, " ", n), fmt.Sprint("class/", n%6)
				observe(t.Context(), lockguard.Event{Subject: s, Notice: lock.PreemptSent{Holder: holder(fmt.Sprint("class/", g)), Reason: priority.Outranked}})
				observe(t.Context(), lockguard.Event{Subject: s, Notice: lockguard.Acquired{Waited: time.Second}})
				observe(t.Context(), lockguard.Event{Subject: s, Notice: lockguard.Released{Held: time.Second}})
				locks.Declare(fmt.Sprint("late/", n))
				if n%50 == 0 {
					b.read(t)
				}
			}
		})
	}
	wg.Wait()
	sums := map[string]float64{}
	for key, n := range b.read(t) {
		name, _, _ := strings.Cut(key, "{")
		sums[name] += n
	}
	for _, name := range []string{waitDuration, holdDuration, preemptionDuration, preemptionCount} {
		require.InDelta(t, guards*rounds, sums[name], 0, name)
	}
}

func TestWhatIsRecordedPointsToTheSpanOfTheWait(t *testing.T) {
	ctx := within(t.Context(), traceparent)
	span := trace.SpanContextFromContext(ctx)
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.TraceID().String())
	require.Equal(t, "b7ad6b7169203331", span.SpanID().String())
	require.True(t, span.IsSampled())

	for _, no := range []string{"", "00", strings.TrimSuffix(traceparent, "1") + "0", strings.ReplaceAll(traceparent, "0af7", "zzzz"), "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", traceparent + "-x", strings.Replace(traceparent, "00-", "ff-", 1)} {
		require.Equal(t, t.Context(), within(t.Context(), no), "%q", no)
	}
}

func TestHoldsPointToTheirOwnSpanIfTheyHaveOne(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	about := lockguard.Subject{Identity: priority.Identity{Trace: traceparent}}
	span := func(ctx context.Context) string {
		return trace.SpanContextFromContext(working(ctx, about)).SpanID().String()
	}
	require.Equal(t, "b7ad6b7169203331", span(t.Context()), "that of the wait")
	require.Equal(t, "00f067aa0ba902b7", span(lockguard.WithTraceparent(t.Context(), func() string { return own })))
	unkept := strings.TrimSuffix(own, "1") + "0"
	require.Equal(t, "b7ad6b7169203331", span(lockguard.WithTraceparent(t.Context(), func() string { return unkept })), "it is not sampled")
}
