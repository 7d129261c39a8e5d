package lockguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestEventsOfARequestTellItsWholeStory(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		holder := lock.Contender{Identity: priority.Identity{Owner: "backup"}, Terms: priority.Terms{Priority: 1}}
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			for _, notice := range []lock.Notice{
				lock.Queued{Position: 1, Holders: []lock.Contender{holder}},
				lock.Blocked{Holders: []lock.Contender{holder}},
				lock.Delayed{After: []lock.Delay{{Owner: "backup"}}},
				lock.Displaced{By: lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 9}}},
				lock.Requeued{Cause: errWork},
				lock.PreemptSent{Holder: holder, Reason: priority.Outranked, Grace: time.Second},
				lock.TakenOver{From: []lock.Contender{holder}},
			} {
				time.Sleep(time.Second)
				g.request.Notify(notice)
			}
			return nil
		}
		hold := acquire(t.Context(), t, s, Requirement{Scope: scope, Terms: priority.Terms{Priority: 5, CleanupTimeout: time.Minute}, Message: "nightly"})
		require.NoError(t, hold.OnCleanup(func(context.Context) error { return nil }))
		require.NoError(t, hold.Extend(t.Context(), time.Hour))
		g := s.locker.last()
		g.request.Notify(lock.AtRisk{Deadline: time.Now().Add(time.Second)})
		g.request.Notify(lock.RiskOver{})
		time.Sleep(time.Minute)
		g.preempt(time.Second)
		g.request.Notify(lock.PreemptionWithdrawn{})
		require.NoError(t, hold.Release(t.Context()))

		require.Equal(t, []string{
			"Waiting", "Queued", "Blocked", "Delayed", "Displaced", "Requeued", "PreemptSent", "TakenOver", "Acquired", "Extended",
			"AtRisk", "RiskOver", "PreemptRequested", "PreemptionWithdrawn", "CleanupStarted", "CleanupDone", "Released",
		}, s.events.names())

		at := time.Time{}
		for _, event := range s.events.list() {
			about := event.Subject
			require.False(t, about.At.Before(at), "%T", event)
			at = about.At
			want := Subject{
				At: at, ID: hold.Info().ID, Scope: scope, Identity: priority.Identity{Owner: "compact", Message: "nightly"}, Priority: 5, Token: about.Token,
			}
			require.Equal(t, want, about)
		}
		require.Zero(t, about[lock.TakenOver](t, s.events).Token)
		require.Equal(t, Token(101), about[Acquired](t, s.events).Token)
		require.Equal(t, 7*time.Second, only[Acquired](t, s.events).Waited)
		require.Equal(t, time.Minute, only[Released](t, s.events).Held)
		asked := only[lock.PreemptRequested](t, s.events)
		require.Equal(t, "hotfix", asked.By.Owner)
		require.True(t, asked.Forceful)
		at = about[lock.PreemptRequested](t, s.events).At
		require.Equal(t, at, only[Released](t, s.events).Since, "its context has ended then")
		require.Equal(t, at, only[CleanupStarted](t, s.events).Since)
	})
}

func TestEveryRequestHasAnIDOfItsOwn(t *testing.T) {
	s := newSetup(t)
	ids := make(map[string]bool)
	for range 100 {
		hold := acquire(t.Context(), t, s, required())
		ids[hold.Info().ID] = true
		require.NoError(t, hold.Release(t.Context()))
	}
	require.Len(t, ids, 100)
}

func TestTraceIsMadeAfterWaitingWasToldAndTravelsInEveryLaterEvent(t *testing.T) {
	var told []string
	s := newSetup(t,
		WithObserver(func(_ context.Context, event Event) { told = append(told, event.Trace) }),
		WithTrace(func(_ context.Context, about Subject) string {
			require.Len(t, told, 1)
			return "trace " + about.ID
		}))
	hold := acquire(t.Context(), t, s, required())
	require.NoError(t, hold.Release(t.Context()))
	trace := "trace " + hold.Info().ID
	require.Equal(t, []string{"", trace, trace}, told)
	require.Equal(t, trace, hold.Trace())
}

func TestPanickingObserverIsContained(t *testing.T) {
	var log bytes.Buffer
	last := &events{}
	s := newSetup(t,
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		WithObserver(func(context.Context, Event) { panic("broken observer") }),
		WithObserver(last.observe))

	require.NoError(t, s.Do(t.Context(), required(), func(context.Context) error { return nil }))

	require.Equal(t, []string{"Waiting", "Acquired", "Released"}, last.names(), "the next observer is called")
	require.Contains(t, log.String(), "broken observer")
	require.Contains(t, log.String(), "event=released")
}

func TestSlowObserverDoesNotDelayTheEndOfTheContextNorTheLayerBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		s := newSetup(t, WithObserver(func(_ context.Context, event Event) {
			if _, ok := event.Notice.(lock.PreemptRequested); ok {
				<-blocked
			}
		}))
		hold := acquire(t.Context(), t, s, required())
		s.locker.last().preempt(time.Minute) // returns
		require.Error(t, hold.Context().Err())
		synctest.Wait()

		released := make(chan error, 1)
		go func() { released <- hold.Release(t.Context()) }()
		synctest.Wait()
		require.Equal(t, 1, s.locker.last().released(), "the lock does not wait for it either")
		require.Empty(t, released, "but Release waits, so that nothing untold is lost at exit")
		close(blocked)
		require.NoError(t, <-released)
		require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "Released"}, s.events.names())
	})
}

func TestObserverThatHangsDelaysReleaseOnlyForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold *Hold
		s := newSetup(t, WithObserver(func(_ context.Context, event Event) {
			if _, ok := event.Notice.(lock.PreemptRequested); ok {
				require.NoError(t, hold.Release(t.Context())) // forbidden, and survived
			}
		}))
		hold = acquire(t.Context(), t, s, required())
		start := time.Now()
		s.locker.last().preempt(time.Minute)
		synctest.Wait()
		time.Sleep(releaseTimeout)
		synctest.Wait()
		require.Equal(t, releaseTimeout, time.Since(start))
		require.Contains(t, s.events.names(), "Released")
	})
}

func TestNoticesThatComeTooLateAreNotTold(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		require.NoError(t, hold.Release(t.Context()))
		told := len(s.events.list())

		for _, notice := range []lock.Notice{
			lock.Queued{}, lock.PreemptionWithdrawn{}, lock.AtRisk{}, lock.Lost{Err: &LostError{}},
		} {
			g.request.Notify(notice)
		}
		g.preempt(0)
		synctest.Wait()
		require.Len(t, s.events.list(), told)
		require.ErrorIs(t, context.Cause(hold.Context()), ErrReleased)
	})
}

func TestLayerAboveCanTellOfSkippedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, WithObserver(func(ctx context.Context, _ Event) { require.NoError(t, ctx.Err()) }))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Observe(ctx, Event{Notice: Skipped{Job: "compact", Reason: "the previous run still runs"}})
		require.Equal(t, time.Now(), about[Skipped](t, s.events).At)
		require.Equal(t, "compact", only[Skipped](t, s.events).Job)
	})
}

// oneOfEach is every notice that an event can have, with what its log line must say.
var oneOfEach = []struct {
	notice lock.Notice
	level  slog.Level
	says   []string
}{
	{Waiting{}, slog.LevelDebug, []string{"lock requested"}},
	{lock.Queued{Position: 2, Holders: []lock.Contender{{Identity: priority.Identity{Owner: "a"}}, {Identity: priority.Identity{Owner: "b"}}}}, slog.LevelInfo, []string{"waiting for lock", "position=2", `holder="a, b"`}},
	{lock.Delayed{After: []lock.Delay{{Owner: "a"}, {Owner: "b"}}}, slog.LevelInfo, []string{"delayed", `after="a, b"`, "until="}},
	{lock.Displaced{By: lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 9}}}, slog.LevelInfo, []string{"displaced", "by=hotfix", "by_priority=9"}},
	{lock.Requeued{Cause: errWork}, slog.LevelWarn, []string{"back of the queue", "disk full"}},
	{lock.PreemptSent{Holder: lock.Contender{Identity: priority.Identity{Owner: "a", Host: "h1", PID: 7}}, Reason: "lease", Grace: time.Second}, slog.LevelInfo, []string{"preempted the holder", "holder=a", "holder_host=h1", "holder_pid=7", "reason=lease", "grace=1s"}},
	{Frozen{Override: incident(override.Freeze)}, slog.LevelWarn, []string{"frozen", "override=INC-7", "by=ana", `why="failing disks"`, "until="}},
	{Thawed{}, slog.LevelInfo, []string{"not frozen any more"}},
	{Overridden{Effect: override.Effect{Terms: priority.Terms{WaitingTimeout: new(time.Second), LeaseTimeout: time.Minute}, Applied: []override.Override{incident(override.Boost), incident(override.Cap)}}}, slog.LevelInfo, []string{"overrides change", `override="INC-7, INC-7"`, "forceful=false", "waiting=1s", "lease=1m0s"}},
	{Bypassed{Override: incident(override.Bypass)}, slog.LevelWarn, []string{"without the lock", "override=INC-7"}},
	{ApprovalPending{Holders: []lock.Contender{{Identity: priority.Identity{Owner: "a"}}}, Waited: time.Second}, slog.LevelWarn, []string{"an approval is needed", "holder=a", "waited=1s"}},
	{ApprovalDecided{Decision: Decision{ID: "a-7", By: "ana", Reason: "month's end"}}, slog.LevelInfo, []string{"may take the lock", "approval=a-7", "by=ana", `why="month's end"`}},
	{ApprovalDecided{Err: errWork}, slog.LevelWarn, []string{"may not take", "disk full"}},
	{lock.TakenOver{From: []lock.Contender{{Identity: priority.Identity{Owner: "a"}}}}, slog.LevelWarn, []string{"took the lock", "from=a"}},
	{NotAcquired{Err: errWork, Waited: 1500 * time.Microsecond}, slog.LevelInfo, []string{"not acquired", "disk full", "waited=2ms"}},
	{Acquired{Waited: time.Second}, slog.LevelInfo, []string{"lock acquired", "waited=1s", "token=12"}},
	{lock.PreemptRequested{By: lock.Contender{Identity: priority.Identity{Owner: "hotfix"}}, Reason: "outranked", Grace: time.Second, Forceful: true}, slog.LevelInfo, []string{"preempted, the lock is to be released", "by=hotfix", "reason=outranked", "grace=1s", "forceful=true"}},
	{lock.PreemptRequested{Override: &lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}}, slog.LevelInfo, []string{"preempted, the lock is to be released", "override=INC-7", "override_by=ana"}},
	{lock.PreemptionWithdrawn{}, slog.LevelInfo, []string{"preemption withdrawn"}},
	{lock.Blocked{Holders: []lock.Contender{{Identity: priority.Identity{Owner: "a"}}}}, slog.LevelInfo, []string{"first in the queue", "holder=a"}},
	{lock.RiskOver{}, slog.LevelInfo, []string{"answers again"}},
	{lock.AtRisk{}, slog.LevelWarn, []string{"ZooKeeper is silent", "deadline="}},
	{CleanupStarted{Cause: errWork, Hooks: 2}, slog.LevelInfo, []string{"cleanup started", `cause="disk full"`, "hooks=2"}},
	{CleanupDone{Took: time.Second}, slog.LevelInfo, []string{"cleanup done", "took=1s"}},
	{CleanupDone{Err: errWork}, slog.LevelWarn, []string{"cleanup done", "disk full"}},
	{CleanupOverrun{Grace: time.Second, WorkRunning: true}, slog.LevelWarn, []string{"still held", "grace=1s", "running=work"}},
	{Extended{Lease: time.Hour}, slog.LevelInfo, []string{"extended", "lease=1h0m0s"}},
	{Downgraded{}, slog.LevelInfo, []string{"shared from now on"}},
	{Released{Held: time.Second, Cause: errWork}, slog.LevelInfo, []string{"released", "held=1s", `cause="disk full"`}},
	{Released{Err: errWork}, slog.LevelWarn, []string{"not confirmed", "disk full"}},
	{Lost{Err: &LostError{Scope: scope, Reason: lock.LossTaken, By: "hotfix"}, Held: time.Second}, slog.LevelWarn, []string{"lock lost", "hotfix", "held=1s"}},
	{Skipped{Job: "compact", Reason: "still running"}, slog.LevelInfo, []string{"job skipped", "job=compact", "still running"}},
	{Stuck{Job: "compact", Cause: ErrShutdown, For: time.Minute, Stack: "main.go:7"}, slog.LevelError, []string{"job=compact", "for=1m0s", "main.go:7"}},
}

// keptNotices are those of the lock that no event has.
var keptNotices = map[string]string{
	"lock.Joined":         "is for the Ticket",
	"lock.Revised":        "is reported as Overridden",
	"lock.CleanupPending": "is reported as ApprovalPending",
	"lock.PendingOver":    "ends what ApprovalPending tells",
	"lock.Lost":           "is reported as Lost",
}

func TestSetOfNoticesIsClosedAndEachOneThatIsToldHasAKindAndALogLine(t *testing.T) {
	tested, kinds := make(map[string]bool), make(map[string]string)
	for _, c := range oneOfEach {
		name := fmt.Sprintf("%T", c.notice)
		tested[name] = true
		t.Run(name, func(t *testing.T) {
			var line bytes.Buffer
			observer := LogObserver(slog.New(slog.NewTextHandler(&line, &slog.HandlerOptions{Level: slog.LevelDebug})))
			observer(t.Context(), Event{Subject{Token: 12}, c.notice})
			require.Equal(t, 1, bytes.Count(line.Bytes(), []byte("\n")))
			require.Contains(t, line.String(), "level="+c.level.String())
			for _, text := range append(c.says, "token=12") {
				require.Contains(t, line.String(), text)
			}
			require.Regexp(t, "^[a-z]+(_[a-z]+)*$", c.notice.Kind())
			require.Contains(t, []string{"", name}, kinds[c.notice.Kind()], "two notices have one kind")
			kinds[c.notice.Kind()] = name
		})
	}
	for _, name := range noticesOf(t, ".", "../recipes/lock") {
		require.NotEqual(t, tested[name], keptNotices[name] != "", "%s is a notice: give it a row in oneOfEach, or say in keptNotices why no event has it", name)
	}
}

// noticesOf returns the types of packages that are notices: those with a Kind.
func noticesOf(t *testing.T, directories ...string) (names []string) {
	for _, file := range parsed(t, directories) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "Kind" && f.Recv != nil {
				names = append(names, file.Name.Name+"."+f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	require.Greater(t, len(names), 30)
	return names
}

func TestLogLinesSayWhomTheyAreAbout(t *testing.T) {
	var log bytes.Buffer
	s := newSetup(t, WithObserver(LogObserver(slog.New(slog.NewTextHandler(&log, nil)))))
	hold := acquire(t.Context(), t, s, Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}, Message: "nightly"})
	require.NoError(t, hold.Release(t.Context()))

	require.NotContains(t, log.String(), "lock requested", "only at debug level")
	for _, text := range []string{"scope=cluster/orders", "owner=compact", "mode=exclusive", "priority=5", "token=101", "message=nightly", "request=" + hold.Info().ID} {
		require.Equal(t, 2, bytes.Count(log.Bytes(), []byte(text)), "%s in:\n%s", text, log.String())
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{
		{&PreemptedError{Scope: scope, By: "hotfix", Priority: 9}, `lock "cluster/orders" preempted by "hotfix" (priority 9), no time to clean up`},
		{&LeaseExpiredError{Scope: scope, By: "b", Lease: time.Minute, Grace: time.Second}, `lease of 1m0s on lock "cluster/orders" ran out and "b" (priority 0) asks for it, 1s to clean up`},
		{&OverriddenError{Scope: scope, Override: lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}, Grace: time.Second}, `lock "cluster/orders" overridden by ana (INC-7: failing disks), 1s to clean up`},
		{&FrozenError{Scope: scope, Override: incident(override.Freeze), Err: &lock.NotAcquiredError{Scope: scope, Waited: time.Second}}, `lock "cluster/orders" not acquired within 1s: frozen by ana until 2000-01-01T01:00:00Z (INC-7: failing disks)`},
		{&FrozenError{Scope: scope, Override: incident(override.Freeze), Err: ErrShutdown}, `lock "cluster/orders" not acquired: frozen by ana until 2000-01-01T01:00:00Z (INC-7: failing disks): lockkeeper: shutting down`},
		{&ShutdownError{Scope: scope, Err: ErrShutdown}, `work under lock "cluster/orders" was shut down: lockkeeper: shutting down`},
		{&UpgradeError{Scope: scope}, `ask for exclusive at the outer level`},
		{&PanicError{In: "work", Value: "oops"}, `work panicked: oops`},
	} {
		require.ErrorContains(t, c.err, c.says)
	}
	require.NoError(t, errors.Unwrap(&PanicError{Value: "oops"}))
}
