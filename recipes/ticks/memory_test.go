package ticks

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Given a process that runs for a month, in which jobs come and go, then it
// remembers those that it still has.
func TestLedgerForgetsUnusedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTickServer()
		l, session := server.ledger("a")
		run := func(job string) {
			claim, err := l.Claim(t.Context(), job, time.Now(), Ask{})
			require.NoError(t, err)
			require.Equal(t, Claimed, claim.Verdict)
			_, err = l.Finish(t.Context(), claim.Run, End{Outcome: Ran})
			require.NoError(t, err)
		}
		// one has failed, and that was not put right
		l.failing("broken")

		var daily *tickMemory
		for day := range 30 {
			for i := range 20 {
				run(fmt.Sprintf("of day %d, %d", day, i))
			}
			run("daily")
			if daily == nil {
				daily = l.jobs["daily"]
			}
			require.Same(t, daily, l.jobs["daily"], "a job that runs every day is remembered")
			require.LessOrEqual(t, len(l.jobs), 3*20+2, "day %d", day)
			bytes := 0
			for _, m := range l.jobs {
				if !m.packed {
					bytes += len(m.data)
				}
			}
			require.Equal(t, bytes, l.plain)
			time.Sleep(24 * time.Hour)
		}
		require.Contains(t, l.jobs, "broken")

		// a job that comes back costs a read, and goes on
		before := session.requests.Load()
		run("of day 0, 0")
		cold := session.requests.Load() - before
		before = session.requests.Load()
		time.Sleep(time.Minute)
		run("of day 0, 0")
		require.Greater(t, cold, session.requests.Load()-before)
	})
}

// A call that began before its job was forgotten puts right what failed before
// it, and nothing that has failed since.
func TestForgottenJobLosesNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTickServer().ledger("a")
		for range 3 {
			l.failing("job")
		}
		l.settled("job", l.failures("job"))
		began := l.failures("job") // the call

		time.Sleep(2 * tickForget)
		l.failing("other") // which has the job forgotten
		require.NotContains(t, l.jobs, "job")

		l.failing("job")
		l.settled("job", began)
		m := l.jobs["job"]
		m.last = time.Now().Add(time.Second)
		_, known := l.taken("job", time.Now())
		require.False(t, known, "the call that failed since may have claimed it")
		l.settled("job", l.failures("job"))
		_, known = l.taken("job", time.Now())
		require.True(t, known)
	})
}
