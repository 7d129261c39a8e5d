package priority_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Short words for the tables of verdicts. Levels in them: 1 is low, 5 the
// waiter's, 9 high.
const (
	s     = time.Second
	hour  = time.Hour
	never = priority.Never

	out = time.Duration(0) // what is left of a lease that has run out

	byRank  = priority.Outranked
	byLease = priority.LeaseExpired
)

type (
	request priority.Request
	holder  priority.Holder
)

var (
	politely   = request{Level: 5}
	forcefully = request{Level: 5, Forceful: true}
)

func (r request) at(level priority.Level) request {
	r.Level = level
	return r
}

func (r request) shared() request {
	r.Mode = priority.Shared
	return r
}

func (r request) waits(d time.Duration) request {
	r.WaitingTimeout = &d
	return r
}

func (r request) tries() request {
	r.Try = true
	return r
}

func writer(level priority.Level, leaseLeft time.Duration) holder {
	return holder{Level: level, Remaining: priority.Remaining{LeaseLeft: leaseLeft}}
}

func reader(level priority.Level, leaseLeft time.Duration) holder {
	return holder{Level: level, Remaining: priority.Remaining{LeaseLeft: leaseLeft}, Mode: priority.Shared}
}

func (h holder) cleanup(d time.Duration) holder {
	h.CleanupTimeout = d
	return h
}

// asked adds an ask of the waiter's that stands.
func (h holder) asked(reason priority.Reason, ago time.Duration) holder {
	h.Asked = append(slices.Clip(h.Asked), priority.Asked{Reason: reason, Ago: ago})
	return h
}

func by(holders ...holder) []holder { return holders }

func plain(holders []holder) []priority.Holder {
	var all []priority.Holder
	for _, h := range holders {
		all = append(all, priority.Holder(h))
	}
	return all
}

var (
	grant    = priority.Verdict{Action: priority.Grant}
	refuse   = priority.Verdict{Action: priority.Refuse}
	takeOver = priority.Verdict{Action: priority.TakeOver}
	giveUp   = priority.Verdict{Action: priority.GiveUp}
)

func wait(after time.Duration) priority.Verdict {
	return priority.Verdict{Action: priority.Wait, After: after}
}

func preempt(after time.Duration, asks ...priority.Ask) priority.Verdict {
	return priority.Verdict{Action: priority.Preempt, Asks: asks, After: after}
}

func outranked(holder int, grace time.Duration) priority.Ask {
	return priority.Ask{Holder: holder, Reason: byRank, Grace: grace}
}

func lease(holder int, grace time.Duration) priority.Ask {
	return priority.Ask{Holder: holder, Reason: byLease, Grace: grace}
}

func TestActionIsReadable(t *testing.T) {
	for a, text := range map[priority.Action]string{
		priority.Grant:    "grant",
		priority.Preempt:  "preempt",
		priority.Wait:     "wait",
		priority.TakeOver: "take over",
		priority.GiveUp:   "give up",
		priority.Refuse:   "refuse",
		0:                 "Action(0)",
	} {
		require.Equal(t, text, a.String())
	}
}
