package timings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

const session = 15 * time.Second

// many is n durations, all but the last one of which are the same.
func many(n int, each, last time.Duration) Histogram {
	var h Histogram
	for range n - 1 {
		h.Record(each)
	}
	h.Record(last)
	return h
}

func advise(t *testing.T, stats Stats, timeout string, r lockguard.Requirement) Proposal {
	t.Helper()
	r.Owner, r.Scope = "job", "s"
	for _, p := range Advise(stats, []lockguard.Requirement{r}, session) {
		if p.Timeout == timeout {
			return p
		}
	}
	t.Fatalf("no advice on %s", timeout)
	return Proposal{}
}

func TestAdvice(t *testing.T) {
	lease := func(d time.Duration) lockguard.Requirement {
		return lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: d}}
	}
	cleanup := func(d time.Duration) lockguard.Requirement {
		return lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 24 * time.Hour, CleanupTimeout: d}}
	}
	waiting := func(d *time.Duration) lockguard.Requirement {
		return lockguard.Requirement{Terms: priority.Terms{WaitingTimeout: d}}
	}
	for name, test := range map[string]struct {
		timeout     string
		seen        Series
		requirement lockguard.Requirement
		verdict     Verdict
		proposed    time.Duration // 0: none
		why         string
	}{
		"too little is known":             {"lease_timeout", Series{Hold: many(19, time.Minute, time.Minute)}, lease(time.Second), Unknown, 0, "not enough samples: 19 of 20"},
		"enough is known":                 {"lease_timeout", Series{Hold: many(20, time.Minute, time.Minute)}, lease(30 * time.Second), Raise, 90 * time.Second, "too short"},
		"a lease that fits":               {"lease_timeout", Series{Hold: many(20, time.Minute, time.Minute)}, lease(2 * time.Minute), Keep, 0, ""},
		"a lease that is much too long":   {"lease_timeout", Series{Hold: many(200, time.Minute, time.Hour)}, lease(10 * time.Minute), Lower, 90 * time.Second, "longer than"},
		"a lease below the session":       {"lease_timeout", Series{Hold: many(200, time.Second, time.Second)}, lease(10 * time.Minute), Lower, session, ""},
		"a lease that was over":           {"lease_timeout", Series{Hold: many(19, time.Minute, time.Minute), Expired: 1, LongestExpired: time.Hour}, lease(5 * time.Minute), Raise, 90 * time.Minute, "once preempted because the lease was over, after 1h0m0s"},
		"a lease stays above the cleanup": {"lease_timeout", Series{Hold: many(20, time.Second, time.Second)}, lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: time.Hour, CleanupTimeout: time.Minute}}, Lower, 90 * time.Second, ""},
		"a cleanup that takes longer":     {"cleanup_timeout", Series{Cleanup: many(100, time.Second, time.Minute), Overran: 1, Preempted: 100}, cleanup(30 * time.Second), Raise, 90 * time.Second, "preempted 100 times; kept its timeout 99 of 100 times"},
		"a cleanup that was cut off":      {"cleanup_timeout", Series{Cleanup: many(100, time.Second, time.Minute), Unfinished: 2}, cleanup(30 * time.Second), Raise, 90 * time.Second, "2 times the lock was lost before the cleanup was done"},
		"a cleanup that fits":             {"cleanup_timeout", Series{Cleanup: many(100, time.Second, 2*time.Second)}, cleanup(10 * time.Second), Keep, 0, "kept its timeout 100 of 100 times"},
		"a cleanup that is much too long": {"cleanup_timeout", Series{Cleanup: many(100, time.Second, 2*time.Second)}, cleanup(time.Hour), Lower, session, ""},
		"no cleanup, never asked":         {"cleanup_timeout", Series{}, cleanup(0), Keep, 0, "never preempted; it declares no cleanup"},
		"a cleanup that was never needed": {"cleanup_timeout", Series{}, cleanup(time.Minute), Unknown, 0, "not enough samples: 0 of 20"},
		"a wait that is too short":        {"waiting_timeout", Series{GiveWay: many(15, time.Minute, time.Minute), Pending: 5}, waiting(new(45 * time.Second)), Raise, 4 * time.Minute, "it was over 5 times before the holder had gone; others on this scope took up to 3m0s to clean up"},
		"a wait that fits":                {"waiting_timeout", Series{GiveWay: many(20, time.Minute, time.Minute)}, waiting(new(5 * time.Minute)), Keep, 0, ""},
		"a wait for ever":                 {"waiting_timeout", Series{GiveWay: many(20, time.Minute, time.Minute)}, waiting(nil), Keep, 0, "it is unset: for ever"},
		"a wait for no cleanup":           {"waiting_timeout", Series{Pending: 20}, waiting(new(time.Duration)), Keep, 0, "it is 0: it waits for no cleanup"},
	} {
		t.Run(name, func(t *testing.T) {
			// given
			stats := Stats{
				{"job", "s"}:     &test.seen,
				{"other", "s"}:   &Series{Cleanup: many(20, time.Second, 3*time.Minute)},
				{"other", "far"}: &Series{Cleanup: many(20, time.Second, 5*time.Hour)},
			}

			// when
			p := advise(t, stats, test.timeout, test.requirement)

			// then
			require.Equal(t, test.verdict, p.Verdict, p.Why)
			require.Contains(t, p.Why, test.why)
			if test.proposed == 0 {
				require.Nil(t, p.Proposed)
			} else {
				require.Equal(t, test.proposed.String(), p.Proposed.String())
			}
		})
	}
}

func TestWhatDoesNotPreemptGetsNoAdviceOnWaiting(t *testing.T) {
	all := Advise(Stats{}, []lockguard.Requirement{{Owner: "job", Scope: "s"}}, session)
	require.Len(t, all, 2)
	require.Equal(t, 10*time.Minute, *all[0].Declared, "the default")
}

func TestAdviceTakenIsValid(t *testing.T) {
	// given a cleanup that needs longer than the lease
	stats := Stats{{"job", "s"}: &Series{Hold: many(20, time.Second, time.Second), Cleanup: many(20, time.Hour, time.Hour)}}
	r := lockguard.Requirement{Owner: "job", Scope: "s", Terms: priority.Terms{LeaseTimeout: time.Minute, CleanupTimeout: 30 * time.Second}}

	// when
	all := Advise(stats, []lockguard.Requirement{r}, session)
	r.LeaseTimeout, r.CleanupTimeout = *all[0].Proposed, *all[1].Proposed

	// then
	require.NoError(t, r.Validate())
	for _, p := range Advise(stats, []lockguard.Requirement{r}, session) {
		require.Equal(t, Keep, p.Verdict, "advice that is taken is not changed")
	}
}

func TestHumanDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1s", time.Second: "1s", 1001 * time.Millisecond: "2s", 61 * time.Second: "1m30s", 13 * time.Hour: "24h0m0s", 25 * time.Hour: "48h0m0s",
	} {
		require.Equal(t, want, Human(d).String())
	}
}
