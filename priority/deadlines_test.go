package priority_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

// moment is what the waiter does some time after it preempted the holder.
type moment struct {
	ago  time.Duration
	want priority.Verdict
}

// deadlines is one contention from the first look on.
type deadlines struct {
	forceful bool
	waiting  *time.Duration
	cleanup  time.Duration
	reason   priority.Reason
	unasked  priority.Verdict
	asked    []moment
}

func (d deadlines) name() string {
	manner, waiting := "polite", "for ever"
	if d.forceful {
		manner = "forceful"
	}
	if d.waiting != nil {
		waiting = d.waiting.String()
	}
	return fmt.Sprintf("%s, %s, waits %s, cleanup %s", d.reason, manner, waiting, d.cleanup)
}

// Every deadline: the reason × polite or forceful × the waiting timeout unset,
// 0, shorter, as long as or longer than a cleanup of 10 s × cleanup or none;
// each looked at before, at and after its ends.
//
// The outranked holder's lease has an hour left at every look.
func TestVerdictAtEachDeadline(t *testing.T) {
	const forceful, polite = true, false
	var (
		forEver  *time.Duration
		notAtAll = new(0 * s)
		short    = new(4 * s)
		equal    = new(10 * s)
		long     = new(30 * s)
	)
	rows := []deadlines{
		// Forceful: takes over at the end of the cleanup or of its waiting timeout, whichever is first.
		{forceful, forEver, 10 * s, byRank, preempt(10*s, outranked(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, notAtAll, 10 * s, byRank, preempt(0, outranked(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, short, 10 * s, byRank, preempt(4*s, outranked(0, 4*s)), []moment{{0, wait(4 * s)}, {3 * s, wait(1 * s)}, {4*s - 1, wait(1)}, {4 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, equal, 10 * s, byRank, preempt(10*s, outranked(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, long, 10 * s, byRank, preempt(10*s, outranked(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {31 * s, takeOver}}},
		{forceful, forEver, 0, byRank, preempt(0, outranked(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, notAtAll, 0, byRank, preempt(0, outranked(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, short, 0, byRank, preempt(0, outranked(0, 0)), []moment{{0, takeOver}, {5 * s, takeOver}}},
		{forceful, long, 0, byRank, preempt(0, outranked(0, 0)), []moment{{0, takeOver}, {31 * s, takeOver}}},
		{forceful, forEver, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, notAtAll, 10 * s, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, short, 10 * s, byLease, preempt(4*s, lease(0, 4*s)), []moment{{0, wait(4 * s)}, {3 * s, wait(1 * s)}, {4*s - 1, wait(1)}, {4 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, equal, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{forceful, long, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {31 * s, takeOver}}},
		{forceful, forEver, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, notAtAll, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{forceful, short, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {5 * s, takeOver}}},
		{forceful, long, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {31 * s, takeOver}}},

		// Polite, outranking: never takes over, waits for the release as long as its waiting timeout.
		{polite, forEver, 10 * s, byRank, preempt(hour, outranked(0, 10*s)), []moment{{0, wait(hour)}, {9 * s, wait(hour)}, {10 * s, wait(hour)}, {11 * s, wait(hour)}}},
		{polite, notAtAll, 10 * s, byRank, giveUp, []moment{{0, giveUp}, {11 * s, giveUp}}},
		{polite, short, 10 * s, byRank, preempt(4*s, outranked(0, 10*s)), []moment{{0, wait(4 * s)}, {3 * s, wait(1 * s)}, {4*s - 1, wait(1)}, {4 * s, giveUp}, {10 * s, giveUp}, {11 * s, giveUp}}},
		{polite, equal, 10 * s, byRank, preempt(10*s, outranked(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10 * s, giveUp}, {11 * s, giveUp}}},
		{polite, long, 10 * s, byRank, preempt(30*s, outranked(0, 10*s)), []moment{{0, wait(30 * s)}, {9 * s, wait(21 * s)}, {10 * s, wait(20 * s)}, {29 * s, wait(1 * s)}, {30*s - 1, wait(1)}, {30 * s, giveUp}, {31 * s, giveUp}}},
		{polite, forEver, 0, byRank, preempt(hour, outranked(0, 0)), []moment{{0, wait(hour)}, {1 * s, wait(hour)}}},
		{polite, notAtAll, 0, byRank, giveUp, []moment{{0, giveUp}, {1 * s, giveUp}}},
		{polite, short, 0, byRank, preempt(4*s, outranked(0, 0)), []moment{{0, wait(4 * s)}, {3 * s, wait(1 * s)}, {4*s - 1, wait(1)}, {4 * s, giveUp}, {5 * s, giveUp}}},
		{polite, long, 0, byRank, preempt(30*s, outranked(0, 0)), []moment{{0, wait(30 * s)}, {29 * s, wait(1 * s)}, {30*s - 1, wait(1)}, {30 * s, giveUp}, {31 * s, giveUp}}},

		// Polite, lease run out: takes over when the cleanup timeout is over, if its patience lasts.
		{polite, forEver, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{polite, notAtAll, 10 * s, byLease, giveUp, []moment{{0, giveUp}, {9 * s, giveUp}, {10 * s, takeOver}}},
		{polite, short, 10 * s, byLease, preempt(4*s, lease(0, 10*s)), []moment{{0, wait(4 * s)}, {3 * s, wait(1 * s)}, {4*s - 1, wait(1)}, {4 * s, giveUp}, {9 * s, giveUp}, {10 * s, takeOver}}},
		{polite, equal, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {11 * s, takeOver}}},
		{polite, long, 10 * s, byLease, preempt(10*s, lease(0, 10*s)), []moment{{0, wait(10 * s)}, {9 * s, wait(1 * s)}, {10*s - 1, wait(1)}, {10 * s, takeOver}, {31 * s, takeOver}}},
		{polite, forEver, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{polite, notAtAll, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {1 * s, takeOver}}},
		{polite, short, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {5 * s, takeOver}}},
		{polite, long, 0, byLease, preempt(0, lease(0, 0)), []moment{{0, takeOver}, {31 * s, takeOver}}},
	}

	listed := map[string]bool{}
	for _, row := range rows {
		require.False(t, listed[row.name()], "listed twice: %s", row.name())
		listed[row.name()] = true

		inTheWay := writer(1, hour).cleanup(row.cleanup)
		if row.reason == byLease {
			inTheWay = writer(9, out).cleanup(row.cleanup)
		}
		look := func(h holder) priority.Verdict {
			return priority.Judge(priority.Facts{
				Request: priority.Request{Level: 5, Forceful: row.forceful, WaitingTimeout: row.waiting},
				First:   true,
				Holders: plain(by(h)),
			})
		}
		t.Run(row.name()+", not asked yet", func(t *testing.T) {
			require.Equal(t, row.unasked, look(inTheWay))
		})
		for _, m := range row.asked {
			t.Run(fmt.Sprintf("%s, asked %s ago", row.name(), m.ago), func(t *testing.T) {
				require.Equal(t, m.want, look(inTheWay.asked(row.reason, m.ago)))
			})
		}
	}

	for _, reason := range []priority.Reason{byRank, byLease} {
		for _, manner := range []bool{forceful, polite} {
			for _, waiting := range []*time.Duration{forEver, notAtAll, short, long} {
				for _, cleanup := range []time.Duration{0, 10 * s} {
					d := deadlines{forceful: manner, waiting: waiting, cleanup: cleanup, reason: reason}
					require.True(t, listed[d.name()], "case is missing: %s", d.name())
				}
			}
		}
	}
}
