package audit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/embedded"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A fakeTrail is a trail in memory.
type fakeTrail struct {
	mu      sync.Mutex
	entries []opstore.AuditEntry
	err     error         // of Append; nothing was sent
	stall   chan struct{} // when set, Append waits for it, and then for nothing
}

func (f *fakeTrail) Append(ctx context.Context, entry opstore.AuditEntry) (opstore.AuditRecord, error) {
	f.mu.Lock()
	stall, err := f.stall, f.err
	f.mu.Unlock()
	if err != nil {
		return opstore.AuditRecord{}, err
	}
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return opstore.AuditRecord{}, context.Cause(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = append(f.entries, entry)
	return opstore.AuditRecord{Seq: int64(len(f.entries)), AuditEntry: entry}, nil
}

func (f *fakeTrail) Follow(ctx context.Context, _ int64, _ func(opstore.AuditRecord) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *fakeTrail) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeTrail) all() []opstore.AuditEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.entries)
}

// newAuditor is for a bubble where events are observed: an event does not wait for its record for longer than
// observeTimeout, and a busy machine may take that long.
func newAuditor(t *testing.T, cfg Config) *Auditor {
	t.Helper()
	a, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

func subject(id, owner string, level priority.Level, token lock.Token) lockguard.Subject {
	return lockguard.Subject{ID: id, Scope: "cluster/orders", Identity: priority.Identity{Owner: owner}, Priority: level, Token: token}
}

var nightly = lock.Contender{ID: "guid", Identity: priority.Identity{Owner: "nightly", Host: "h3", PID: 811}, Terms: priority.Terms{Priority: 20}, Token: 7}

// takeover is announced as lockguard does.
func takeover(id string) opstore.AuditEntry {
	return opstore.AuditEntry{
		Act: id, Action: opstore.AuditTakeover, Phase: opstore.AuditIntent, Scope: "cluster/orders", By: "hotfix", Reason: "outranked",
		Override: "INC-1", Victims: []opstore.AuditParty{nightly.Party()},
	}
}

func TestPreemptionAndTakeoverAreOnRecordFromBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		trail := &fakeTrail{}
		a := newAuditor(t, Config{Trail: trail})
		hotfix, victim := subject("r1", "hotfix", 90, 0), subject("r0", "nightly", 20, 7)

		// when
		a.Observe(t.Context(), lockguard.Event{Subject: hotfix, Notice: lockguard.Overridden{Effect: override.Effect{Applied: []override.Override{{ID: "INC-1", Kind: override.Boost}}}}})
		a.Observe(t.Context(), lockguard.Event{Subject: hotfix, Notice: lock.PreemptSent{Holder: nightly, Reason: priority.Outranked, Grace: time.Minute}})
		a.Observe(t.Context(), lockguard.Event{Subject: victim, Notice: lock.PreemptRequested{
			By: lock.Contender{ID: "g1", Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 90}}, Reason: priority.Outranked,
			Grace: time.Minute, Forceful: true, Override: &lock.Mark{ID: "INC-1"},
		}})
		require.NoError(t, a.Audit(t.Context(), takeover("r1")))
		a.Observe(t.Context(), lockguard.Event{Subject: hotfix, Notice: lock.TakenOver{From: []lock.Contender{nightly}}})
		a.Observe(t.Context(), lockguard.Event{Subject: subject("r1", "hotfix", 90, 8), Notice: lockguard.Acquired{}})
		a.Observe(t.Context(), lockguard.Event{Subject: victim, Notice: lockguard.Lost{Held: time.Minute, Err: &lockguard.LostError{Reason: lock.LossTaken, By: "hotfix", For: priority.Outranked}}})

		// then
		all := trail.all()
		require.Len(t, all, 5)
		for i, want := range []struct {
			action   opstore.AuditAction
			phase    opstore.AuditPhase
			act      string
			override string
		}{
			{opstore.AuditPreempt, opstore.AuditOutcome, "hold-7", "INC-1"},
			{opstore.AuditPreempted, opstore.AuditOutcome, "hold-7", "INC-1"},
			{opstore.AuditTakeover, opstore.AuditIntent, "r1", "INC-1"},
			{opstore.AuditTakeover, opstore.AuditOutcome, "r1", "INC-1"},
			{opstore.AuditLost, opstore.AuditOutcome, "hold-7", ""},
		} {
			require.Equal(t, want.action, all[i].Action)
			require.Equal(t, want.phase, all[i].Phase)
			require.Equal(t, want.act, all[i].Act, want.action)
			require.Equal(t, want.override, all[i].Override, want.action)
			require.Equal(t, "hotfix", all[i].By)
			require.Equal(t, "nightly", all[i].Victims[0].Owner)
			require.EqualValues(t, 7, all[i].Victims[0].Token)
		}
		require.Equal(t, opstore.AuditDone, all[3].Result)
		require.Equal(t, "outranked", all[3].Reason)
		require.Empty(t, a.announced)
	})
}

func TestAnnouncedTakeoverThatIsNotDoneHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			end  lockguard.Event
			want string
		}{
			"the holder has gone":  {lockguard.Event{Subject: subject("r1", "hotfix", 90, 8), Notice: lockguard.Acquired{}}, errHadGone.Error()},
			"the request gives up": {lockguard.Event{Subject: subject("r1", "hotfix", 90, 0), Notice: lockguard.NotAcquired{Err: errors.New("too late")}}, "too late"},
		} {
			trail := &fakeTrail{}
			a := newAuditor(t, Config{Trail: trail})
			require.NoError(t, a.Audit(t.Context(), takeover("r1")))
			require.NoError(t, a.Audit(t.Context(), takeover("r2")), "another one goes on")
			a.Observe(t.Context(), c.end)
			a.Observe(t.Context(), c.end)
			all := trail.all()
			require.Len(t, all, 3, name)
			require.Equal(t, opstore.AuditFailed, all[2].Result, name)
			require.Equal(t, c.want, all[2].Error, name)
			require.Equal(t, "r1", all[2].Act, name)
		}
	})
}

func TestOverrideThatTakesALockHasAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		announced := opstore.AuditEntry{Act: "r1", Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent, Scope: "db", By: "ana", Override: "INC-1"}
		for name, c := range map[string]struct {
			end    lockguard.Event
			result string
			wrong  string
		}{
			"it has it":          {lockguard.Event{Subject: subject("r1", "ana", priority.Emergency, 8), Notice: lockguard.Acquired{}}, opstore.AuditDone, ""},
			"it does not get it": {lockguard.Event{Subject: subject("r1", "ana", priority.Emergency, 0), Notice: lockguard.NotAcquired{Err: errors.New("over")}}, opstore.AuditFailed, "over"},
		} {
			trail := &fakeTrail{}
			a := newAuditor(t, Config{Trail: trail})
			require.NoError(t, a.Audit(t.Context(), announced))
			a.Observe(t.Context(), c.end)
			a.Observe(t.Context(), c.end)
			all := trail.all()
			require.Len(t, all, 2, name)
			require.Equal(t, opstore.AuditOutcome, all[1].Phase, name)
			require.Equal(t, c.result, all[1].Result, name)
			require.Equal(t, c.wrong, all[1].Error, name)
			require.Equal(t, c.end.Token, all[1].Requestor.Token, name)
		}
	})
}

func TestLossesWithoutAnActorAreNotOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trail := &fakeTrail{}
		a := newAuditor(t, Config{Trail: trail})
		for _, reason := range []lock.LossReason{
			lock.LossSession, lock.LossSuperseded, lock.LossTaken, lock.LossOverridden, lock.LossBroken, lock.LossDeleted,
		} {
			a.Observe(t.Context(), lockguard.Event{Subject: subject("r", "nightly", 20, 7), Notice: lockguard.Lost{Err: &lockguard.LostError{
				Reason: reason, By: "ana", Why: "stuck", Override: &lock.Mark{ID: "INC-1"},
			}}})
		}
		var got []string
		for _, e := range trail.all() {
			got = append(got, e.After["lost"]+" by "+e.By+": "+e.Reason)
		}
		require.Equal(t, []string{
			"taken by ana: outranked", "overridden by ana: outranked", "broken by ana: stuck",
			"deleted by somebody by hand: the holder's node was deleted in ZooKeeper",
		}, got)
	})
}

func TestOutcomeWaitsForZooKeeperInTheBackgroundAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given ZooKeeper does not answer
		trail := &fakeTrail{err: &lock.UnavailableError{}}
		a, err := New(Config{Trail: trail})
		require.NoError(t, err)

		// when
		began := time.Now()
		for _, owner := range []string{"first", "second"} {
			holder := nightly
			holder.Owner = owner
			a.Observe(t.Context(), lockguard.Event{Subject: subject("r", "hotfix", 90, 0), Notice: lock.PreemptSent{Holder: holder}})
		}

		// then the observer is held up for no longer than twice two seconds
		require.Equal(t, 2*observeTimeout, time.Since(began))
		require.Empty(t, trail.all())

		// and when it answers again
		trail.fail(nil)
		require.NoError(t, a.Close(t.Context()))
		all := trail.all()
		require.Len(t, all, 2)
		require.Equal(t, "first", all[0].Victims[0].Owner)
	})
}

func TestWhatIsNotOnRecordAtTheEndIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a, err := New(Config{Trail: &fakeTrail{err: &lock.UnavailableError{}}, Logger: slog.New(slog.NewJSONHandler(&out, nil))})
		require.NoError(t, err)
		for range 3 {
			a.Observe(t.Context(), lockguard.Event{Subject: subject("r", "hotfix", 90, 0), Notice: lock.PreemptSent{Holder: nightly}})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, a.Close(ctx), "audit: 3 records are not in ZooKeeper, the log has them")
		require.Equal(t, 3, bytes.Count(out.Bytes(), []byte(`"level":"ERROR","msg":"an audit record is lost"`)))
		require.Contains(t, out.String(), `"victims":"nightly (priority 20, token 7)"`)
		a.Observe(t.Context(), lockguard.Event{Subject: subject("r", "hotfix", 90, 0), Notice: lock.PreemptSent{Holder: nightly}})
		require.Equal(t, 4, bytes.Count(out.Bytes(), []byte("an audit record is lost")), "nor what comes later")
	})
}

func TestAnnouncementWithoutAnAnswerIsRefusedAndSaidToHaveFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := make(chan struct{})
		trail := &fakeTrail{stall: stall}
		a, err := New(Config{Trail: trail, Timeout: time.Second})
		require.NoError(t, err)

		// when
		began := time.Now()
		err = a.Audit(t.Context(), takeover("r1"))

		// then
		require.EqualError(t, err, "no answer for 1s")
		require.Equal(t, time.Second, time.Since(began))
		close(stall)
		require.NoError(t, a.Close(t.Context()))
		all := trail.all()
		require.Len(t, all, 1)
		require.Equal(t, opstore.AuditOutcome, all[0].Phase)
		require.Equal(t, opstore.AuditFailed, all[0].Result)
		require.Equal(t, "r1", all[0].Act)
	})
}

func TestAnnouncementThatWasNotSentLeavesNothing(t *testing.T) {
	trail := &fakeTrail{err: &lock.UnavailableError{}}
	a := newAuditor(t, Config{Trail: trail})
	require.ErrorIs(t, a.Audit(t.Context(), takeover("r1")), trail.err)
	trail.fail(nil)
	require.NoError(t, a.Close(t.Context()))
	require.Empty(t, trail.all())
}

// recorder is a logger of OpenTelemetry.
type recorder struct {
	embedded.Logger
	records []log.Record
}

func (r *recorder) Emit(_ context.Context, record log.Record) {
	r.records = append(r.records, record.Clone())
}
func (r *recorder) Enabled(context.Context, log.EnabledParameters) bool { return true }

func TestRecordsGoToTheLogAndToOpenTelemetry(t *testing.T) {
	var out bytes.Buffer
	otel := &recorder{}
	a := newAuditor(t, Config{Trail: &fakeTrail{}, Logger: slog.New(slog.NewJSONHandler(&out, nil)), Records: otel})
	require.NoError(t, a.Audit(t.Context(), takeover("r1")))

	require.Contains(t, out.String(), `"level":"WARN","msg":"audit","seq":1,"action":"takeover","phase":"intent","act":"r1","scope":"cluster/orders","by":"hotfix"`)
	require.Len(t, otel.records, 1)
	r := otel.records[0]
	require.Equal(t, "lockkeeper.audit", r.EventName())
	require.Equal(t, log.SeverityWarn, r.Severity())
	require.Equal(t, "hotfix: takeover (intent) on cluster/orders", r.Body().AsString())
	attrs := map[string]string{}
	for kv := range r.WalkAttributes {
		attrs[string(kv.Key)] = kv.Value.String()
	}
	require.Equal(t, "takeover", attrs["lockkeeper.audit.action"])
	require.Equal(t, "1", attrs["lockkeeper.audit.seq"])
}

func TestAuditorNeedsATrail(t *testing.T) {
	_, err := New(Config{})
	require.EqualError(t, err, "audit: the trail is nil; give that of the client, see lock.Client.AuditLog")
	_, err = New(Config{Trail: &fakeTrail{}, File: t.TempDir()})
	require.ErrorContains(t, err, "audit: the file for records cannot be used: ")
}
