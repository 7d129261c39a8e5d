package priority_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

// contention is one moment of the first waiter in line.
type contention struct {
	name    string
	request request
	holders []holder
	want    priority.Verdict
}

func judge(t *testing.T, contentions []contention) {
	t.Helper()
	for _, c := range contentions {
		t.Run(c.name, func(t *testing.T) {
			f := priority.Facts{Request: priority.Request(c.request), First: true, Holders: plain(c.holders)}
			require.Equal(t, c.want, priority.Judge(f))
		})
	}
}

func TestLockIsGrantedWithoutAConflict(t *testing.T) {
	judge(t, []contention{
		{"free", politely.at(0), nil, grant},
		{"the holder is dead, so none of the holders", politely.at(0), nil, grant},
		{"free, try", politely.at(0).tries(), nil, grant},
		{"free, forceful", forcefully.at(0).waits(0 * s), nil, grant},
		{"shared beside shared", politely.shared(), by(reader(0, hour)), grant},
		{"shared beside two shared of higher level", politely.shared(), by(reader(9, hour), reader(9, hour)), grant},
		{"shared beside shared, try", politely.shared().tries(), by(reader(0, hour)), grant},
		{"shared beside a shared one whose lease has run out", politely.shared(), by(reader(0, out)), grant},
		{"free again while an ask of mine was under way", politely.waits(0 * s), nil, grant},
		{"the holder became shared after I asked it", politely.shared().waits(1 * s), by(reader(1, hour).asked(byRank, 2*s)), grant},
	})
}

func TestEqualOrHigherHolderIsLeftAloneUntilItsLeaseEnds(t *testing.T) {
	judge(t, []contention{
		{"equal holder", politely, by(writer(5, 7*s)), wait(7 * s)},
		{"higher holder", politely, by(writer(9, 7*s)), wait(7 * s)},
		{"equal holder, forceful", forcefully, by(writer(5, 7*s)), wait(7 * s)},
		{"equal holder, forceful that waits for no cleanup", forcefully.waits(0 * s), by(writer(5, 7*s)), wait(7 * s)},
		{"equal holder, polite that waits for no cleanup", politely.waits(0 * s), by(writer(5, 7*s)), wait(7 * s)},
		{"equal holder, patience does not count before the first ask", politely.waits(1 * s), by(writer(5, 7*s)), wait(7 * s)},
		{"emergency against emergency", forcefully.at(priority.Emergency), by(writer(priority.Emergency, 7*s)), wait(7 * s)},
		{"cleanup timeout of an equal holder is no concern", politely, by(writer(5, 7*s).cleanup(3 * s)), wait(7 * s)},
		{"the last moment of a lease", politely, by(writer(5, 1)), wait(1)},
		{"equal holder, mode of the request shared", politely.shared(), by(writer(5, 7*s)), wait(7 * s)},
		{"equal holder, mode of the holder shared", politely, by(reader(5, 7*s)), wait(7 * s)},
	})
}

func TestOutrankedHolderIsAskedToGo(t *testing.T) {
	judge(t, []contention{
		{"lower holder", forcefully, by(writer(1, hour).cleanup(10 * s)), preempt(10*s, outranked(0, 10*s))},
		{"lower holder, polite", politely, by(writer(1, hour).cleanup(10 * s)), preempt(hour, outranked(0, 10*s))},
		{"lower holder, shared request", forcefully.shared(), by(writer(1, hour).cleanup(10 * s)), preempt(10*s, outranked(0, 10*s))},
		{"lower shared holder, exclusive request", forcefully, by(reader(1, hour).cleanup(10 * s)), preempt(10*s, outranked(0, 10*s))},
		{"emergency against the highest job", forcefully.at(priority.Emergency), by(writer(priority.Emergency-1, hour)), preempt(0, outranked(0, 0))},
		{"lower holder, lease ends before the grace", forcefully, by(writer(1, 3*s).cleanup(10 * s)), preempt(3*s, outranked(0, 10*s))},
		{"lower holder, lease ends before the patience", politely.waits(20 * s), by(writer(1, 3*s).cleanup(10 * s)), preempt(3*s, outranked(0, 10*s))},
	})
}

func TestHolderPastItsLeaseIsPreemptedByAnyWaiter(t *testing.T) {
	judge(t, []contention{
		{"lease run out, higher request", politely.at(9), by(writer(5, out).cleanup(10 * s)), preempt(10*s, lease(0, 10*s))},
		{"lease run out, equal request", politely, by(writer(5, out).cleanup(10 * s)), preempt(10*s, lease(0, 10*s))},
		{"lease run out, lower request", politely.at(1), by(writer(5, out).cleanup(10 * s)), preempt(10*s, lease(0, 10*s))},
		{"lease run out, lower forceful request", forcefully.at(1).waits(4 * s), by(writer(5, out).cleanup(10 * s)), preempt(4*s, lease(0, 4*s))},
		{"lease run out long ago", politely.at(1), by(writer(5, -hour).cleanup(10 * s)), preempt(10*s, lease(0, 10*s))},
		{"lease of an emergency run out, lowest request", politely.at(0), by(writer(priority.Emergency, out)), preempt(0, lease(0, 0))},
		{"lease run out, lower request, grace over", politely.at(1), by(writer(5, out).cleanup(10*s).asked(byLease, 10*s)), takeOver},
	})
}

func TestLeaseEndGivesARightOfItsOwnWhileAnAskStands(t *testing.T) {
	judge(t, []contention{
		{"lease still runs while a polite ask stands", politely, by(writer(1, 1*s).cleanup(10*s).asked(byRank, 5*s)), wait(1 * s)},
		{"lease runs out while a polite ask stands", politely, by(writer(1, out).cleanup(10*s).asked(byRank, 5*s)), preempt(10*s, lease(0, 10*s))},
		{"lease runs out after a polite ask's grace: a grace of its own", politely, by(writer(1, out).cleanup(10*s).asked(byRank, 20*s)), preempt(10*s, lease(0, 10*s))},
		{"lease runs out while a polite ask stands, patience ends first", politely.waits(7 * s), by(writer(1, out).cleanup(10*s).asked(byRank, 5*s)), preempt(2*s, lease(0, 10*s))},
		{"lease runs out in the moment in which the patience ends", politely.waits(5 * s), by(writer(1, out).cleanup(10*s).asked(byRank, 5*s)), giveUp},
		{"the same, but the holder needs no cleanup", politely.waits(5 * s), by(writer(1, out).asked(byRank, 5*s)), preempt(0, lease(0, 0))},
		{"both asks stand, polite, the older one gives no right", politely, by(writer(1, out).cleanup(10*s).asked(byRank, 20*s).asked(byLease, 4*s)), wait(6 * s)},
		{"both asks stand, polite, lease grace over", politely, by(writer(1, out).cleanup(10*s).asked(byRank, 20*s).asked(byLease, 10*s)), takeOver},
		{"both asks stand, polite, patience counts from the older one", politely.waits(9 * s), by(writer(1, out).cleanup(10*s).asked(byRank, 5*s).asked(byLease, 2*s)), wait(4 * s)},
		{"lease runs out while a forceful ask stands", forcefully, by(writer(1, out).cleanup(10*s).asked(byRank, 5*s)), preempt(5*s, lease(0, 10*s))},
		{"lease runs out in the moment in which a forceful grace ends", forcefully, by(writer(1, out).cleanup(10*s).asked(byRank, 10*s)), takeOver},
		{"both asks stand, forceful, the older grace counts", forcefully, by(writer(1, out).cleanup(10*s).asked(byRank, 7*s).asked(byLease, 1*s)), wait(3 * s)},
		{"clock corrected: asked for a lease that seems to run again", politely, by(writer(1, 2*s).cleanup(10*s).asked(byLease, 4*s)), wait(6 * s)},
		{"clock corrected, grace over: the right stays", politely, by(writer(9, 2*s).cleanup(10*s).asked(byLease, 10*s)), takeOver},
	})
}

func TestConflictingHoldersAreEvictedAllAtOnceOrNotAtAll(t *testing.T) {
	judge(t, []contention{
		{"two lower holders", forcefully, by(reader(1, hour).cleanup(10*s), reader(2, hour).cleanup(4*s)), preempt(4*s, outranked(0, 10*s), outranked(1, 4*s))},
		{"two holders, each asked for its own reason", forcefully, by(reader(9, out).cleanup(10*s), reader(2, hour).cleanup(4*s)), preempt(4*s, lease(0, 10*s), outranked(1, 4*s))},
		{"two holders, one grace over", forcefully, by(reader(1, hour).cleanup(10*s).asked(byRank, 4*s), reader(1, hour).cleanup(4*s).asked(byRank, 4*s)), wait(6 * s)},
		{"two holders, both graces over", forcefully, by(reader(1, hour).cleanup(10*s).asked(byRank, 10*s), reader(1, hour).cleanup(4*s).asked(byRank, 10*s)), takeOver},
		{"two holders, a newcomer is asked as well", forcefully, by(reader(1, hour).cleanup(10*s).asked(byRank, 10*s), reader(1, hour).cleanup(4*s)), preempt(4*s, outranked(1, 4*s))},
		{"two holders, one needs no cleanup: no look before the other's grace", forcefully, by(reader(1, hour), reader(1, hour).cleanup(4*s)), preempt(4*s, outranked(0, 0), outranked(1, 4*s))},
		{"two holders, neither needs cleanup", forcefully, by(reader(1, hour), reader(1, hour)), preempt(0, outranked(0, 0), outranked(1, 0))},
		{"one cannot be asked, the other is not asked in vain", forcefully, by(reader(9, 30*s), reader(1, hour).cleanup(4*s)), wait(30 * s)},
		{"one cannot be asked, the other is past its lease", forcefully, by(reader(9, 30*s), reader(1, out).cleanup(4*s)), preempt(4*s, lease(1, 4*s))},
		{"one was asked for its lease, so the other is asked", forcefully, by(reader(9, out).asked(byLease, 1*s), reader(1, hour).cleanup(4*s)), preempt(4*s, outranked(1, 4*s))},
		{"one's lease runs out, and both are asked", forcefully, by(reader(9, out).cleanup(2*s), reader(1, hour).cleanup(4*s)), preempt(2*s, lease(0, 2*s), outranked(1, 4*s))},
		{"one that cannot be asked came after the other was", forcefully, by(reader(9, 30*s), reader(1, hour).cleanup(4*s).asked(byRank, 1*s), reader(2, hour)), wait(3 * s)},
		{"one cannot be evicted, the other's grace is over: none is", forcefully, by(reader(9, 30*s), reader(1, hour).cleanup(4*s).asked(byRank, 4*s)), wait(30 * s)},
		{"one cannot be evicted, forceful does not give up", forcefully.waits(2 * s), by(reader(9, 30*s), reader(1, hour).cleanup(4*s).asked(byRank, 99*s)), wait(30 * s)},
		{"one cannot be evicted, polite loses patience", politely.waits(9 * s), by(reader(9, 30*s), reader(1, hour).cleanup(4*s).asked(byRank, 9*s)), giveUp},
		{"one cannot be asked, polite that waits for no cleanup asks no holder yet", politely.waits(0 * s), by(reader(9, 30*s), reader(1, hour)), wait(30 * s)},
		{"one lease run out, the other runs, lower request", politely.at(0), by(reader(1, out).cleanup(4*s).asked(byLease, 5*s), reader(1, 8*s)), wait(8 * s)},
		{"polite: lease grace of one over, the other merely outranked", politely, by(reader(1, out).asked(byLease, 5*s), reader(1, hour).asked(byRank, 5*s)), wait(hour)},
		{"polite, no patience, all leases run out, no cleanup", politely.at(0).waits(0 * s), by(reader(1, out), reader(1, out)), preempt(0, lease(0, 0), lease(1, 0))},
		{"polite, no patience, all leases run out, one needs cleanup", politely.at(0).waits(0 * s), by(reader(1, out), reader(1, out).cleanup(1*s)), giveUp},
		{"patience counts from the oldest ask to any holder", politely.waits(9 * s), by(reader(1, hour).asked(byRank, 2*s), reader(1, hour).asked(byRank, 6*s)), wait(3 * s)},
		{"patience is over, a newcomer is not asked any more", politely.waits(9 * s), by(reader(1, hour).asked(byRank, 9*s), reader(1, hour)), giveUp},
	})
}

func TestOddFactsDoNoHarm(t *testing.T) {
	judge(t, []contention{
		{"an ask from the future counts from now", forcefully, by(writer(1, hour).cleanup(10*s).asked(byRank, -5*s)), wait(10 * s)},
		{"an ask from the future, patience counts from now", politely.waits(10 * s), by(writer(1, hour).cleanup(10*s).asked(byRank, -5*s)), wait(10 * s)},
		{"cleanup timeout below zero", forcefully, by(writer(1, hour).cleanup(-5 * s)), preempt(0, outranked(0, 0))},
		{"waiting timeout below zero", politely.waits(-5 * s), by(writer(1, hour)), giveUp},
		{"waiting timeout below zero, forceful", forcefully.waits(-5 * s), by(writer(1, hour).cleanup(10 * s)), preempt(0, outranked(0, 0))},
		{"waiting timeout far below zero", politely.waits(math.MinInt64), by(writer(1, hour).asked(byRank, 1*s)), giveUp},
		{"an ask for an unknown reason gives no right", forcefully, by(writer(9, 7*s).asked("whim", hour)), wait(7 * s)},
	})
}

// A waiter that is not first leaves the holders to the first, whatever they
// are; a try leaves.
func TestOnlyTheFirstInLineDealsWithHolders(t *testing.T) {
	for name, holders := range map[string][]holder{
		"free":             nil,
		"compatible":       by(reader(5, hour)),
		"equal":            by(writer(5, hour)),
		"higher":           by(writer(9, hour)),
		"lower":            by(writer(1, hour)),
		"lease run out":    by(writer(5, out)),
		"asked, displaced": by(writer(1, hour).asked(byRank, hour)),
		"lease asked":      by(writer(9, out).asked(byLease, hour)),
	} {
		for _, r := range []request{politely.shared(), politely.waits(0), forcefully.shared().waits(0)} {
			t.Run(name, func(t *testing.T) {
				f := priority.Facts{Request: priority.Request(r), Holders: plain(holders)}
				require.Equal(t, wait(never), priority.Judge(f))

				f.Request.Try = true
				require.Equal(t, refuse, priority.Judge(f))
			})
		}
	}
}
