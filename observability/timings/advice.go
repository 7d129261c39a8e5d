package timings

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A Verdict says what to do with a timeout.
type Verdict string

// The verdicts.
const (
	Keep    Verdict = "keep"
	Raise   Verdict = "raise"
	Lower   Verdict = "lower"
	Unknown Verdict = "unknown" // there is too little evidence
)

// MinSamples is how many observations it takes to propose anything.
const MinSamples = 20

// tooLong is how many times longer than the proposal a timeout is that should be
// lowered. A timeout that is a little long does no harm.
const tooLong = 3

// MaxProposal is the longest timeout that is ever proposed.
const MaxProposal = 366 * 24 * time.Hour

// A Proposal is the advice on one timeout of one lock of a job.
type Proposal struct {
	Owner, Scope string
	Timeout      string         // "lease_timeout", "cleanup_timeout" or "waiting_timeout"
	Declared     *time.Duration // nil: a waiting timeout that is unset, for ever
	Proposed     *time.Duration // nil unless the verdict is to raise or to lower
	Verdict      Verdict
	Evidence     Evidence
	Why          string // in words
}

// Evidence is what a Proposal is built on. Quantiles are at most 4 % off.
type Evidence struct {
	Samples        uint64
	P50, P99, P999 time.Duration
	Max            time.Duration // exactly
	Kept           uint64        // how many of the samples were within what was declared at that time
}

// Advise compares what requirements declare with what was seen of their owners
// and scopes: two or three proposals for each, in the order of the requirements.
//
// The lease should be 1.2 times as long as 99 of 100 holds, and longer than the
// cleanup timeout; the cleanup timeout 1.5 times as long as 999 of 1000
// cleanups; the waiting timeout of those that preempt 1.2 times as long as the
// longest cleanup of the others on the scope, and as 99 of 100 of their own
// waits. All are rounded up to what people write. Nothing below the session
// timeout is proposed: a holder that ZooKeeper does not hear of is held for alive
// that long anyway. With less than MinSamples there is no proposal.
//
// A waiting timeout that is unset or 0 says how urgent the work is, and is kept.
func Advise(stats Stats, requirements []lockguard.Requirement, sessionTimeout time.Duration) []Proposal {
	var all []Proposal
	for _, r := range requirements {
		r.Terms = r.WithDefaults()
		seen := stats[Key{r.Owner, r.Scope}]
		if seen == nil {
			seen = &Series{}
		}
		a := adviser{requirement: r, seen: seen, floor: sessionTimeout}
		cleanup := a.cleanup()
		all = append(all, a.lease(cleanup), cleanup)
		if seen.GiveWay.Count()+seen.Pending > 0 || r.WaitingTimeout != nil {
			all = append(all, a.waiting(longestCleanup(stats, r)))
		}
	}
	return all
}

type adviser struct {
	requirement lockguard.Requirement
	seen        *Series
	floor       time.Duration
}

func (a adviser) lease(cleanup Proposal) Proposal {
	s := a.seen
	p := a.proposal("lease_timeout", &a.requirement.LeaseTimeout, &s.Hold, s.Hold.Within(a.requirement.LeaseTimeout))
	p.Evidence.Samples += s.Expired
	var notes []string
	if s.Expired > 0 {
		notes = append(notes,
			fmt.Sprintf("%s preempted because the lease was over, after %s at most", times(s.Expired), round(s.LongestExpired)))
	}
	need := max(scale(s.Hold.Quantile(0.99), 1.2), scale(s.LongestExpired, 1.2))
	cleaning := cleanup.effective() // the lease has to be longer
	if cleaning >= a.requirement.LeaseTimeout {
		need = max(need, cleaning+1)
	}
	return p.decide(need, max(a.floor, cleaning+1), notes)
}

func (a adviser) cleanup() Proposal {
	s := a.seen
	p := a.proposal("cleanup_timeout", &a.requirement.CleanupTimeout, &s.Cleanup, s.Kept())
	var notes []string
	if asked := s.Preempted + s.Expired; asked > 0 {
		notes = append(notes, fmt.Sprintf("preempted %s", times(asked)))
	}
	if n := s.Cleanup.Count(); n > 0 && a.requirement.CleanupTimeout > 0 {
		notes = append(notes, fmt.Sprintf("kept its timeout %d of %s", s.Kept(), times(n)))
	}
	if s.Unfinished > 0 {
		notes = append(notes,
			fmt.Sprintf("%s the lock was lost before the cleanup was done: it takes longer than was seen", times(s.Unfinished)))
	}
	if a.requirement.CleanupTimeout == 0 {
		if s.Cleanup.Count() == 0 {
			notes = append(notes, "never preempted")
		}
		p.Verdict, p.Why = Keep, strings.Join(append(notes, "it declares no cleanup"), "; ")
		return p
	}
	return p.decide(scale(s.Cleanup.Quantile(0.999), 1.5), a.floor, notes)
}

func (a adviser) waiting(others time.Duration) Proposal {
	s := a.seen
	p := a.proposal("waiting_timeout", a.requirement.WaitingTimeout, &s.GiveWay, s.GiveWay.Count())
	p.Evidence.Samples += s.Pending
	var notes []string
	if s.Pending > 0 {
		notes = append(notes, fmt.Sprintf("it was over %s before the holder had gone", times(s.Pending)))
	}
	if others > 0 {
		notes = append(notes, fmt.Sprintf("others on this scope took up to %s to clean up", round(others)))
	}
	switch declared := a.requirement.WaitingTimeout; {
	case declared == nil:
		p.Verdict, p.Why = Keep, strings.Join(append(notes, "it is unset: for ever"), "; ")
		return p
	case *declared == 0:
		p.Verdict, p.Why = Keep, strings.Join(append(notes, "it is 0: it waits for no cleanup"), "; ")
		return p
	}
	return p.decide(scale(max(others, s.GiveWay.Quantile(0.99)), 1.2), a.floor, notes)
}

func (a adviser) proposal(timeout string, declared *time.Duration, h *Histogram, kept uint64) Proposal {
	p := Proposal{
		Owner: a.requirement.Owner, Scope: a.requirement.Scope, Timeout: timeout,
		Evidence: Evidence{
			Samples: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Max(), Kept: kept,
		},
	}
	if declared != nil {
		p.Declared = new(*declared)
	}
	return p
}

// decide compares what is declared with what is needed.
func (p Proposal) decide(need, floor time.Duration, notes []string) Proposal {
	proposed := Human(max(need, floor))
	switch {
	case p.Evidence.Samples < MinSamples:
		p.Verdict = Unknown
		notes = append(notes, fmt.Sprintf("not enough samples: %d of %d", p.Evidence.Samples, MinSamples))
	case *p.Declared < need:
		p.Verdict, p.Proposed = Raise, &proposed
		notes = append(notes, "too short")
	case *p.Declared > tooLong*proposed:
		p.Verdict, p.Proposed = Lower, &proposed
		notes = append(notes, "longer than it needs to be")
	default:
		p.Verdict = Keep
	}
	p.Why = strings.Join(notes, "; ")
	return p
}

// effective is what the timeout will be if the advice is taken.
func (p Proposal) effective() time.Duration {
	if p.Proposed != nil {
		return *p.Proposed
	}
	if p.Declared != nil {
		return *p.Declared
	}
	return 0
}

// longestCleanup is how long the others on the scope of r took to go, at most.
func longestCleanup(stats Stats, r lockguard.Requirement) time.Duration {
	var longest time.Duration
	for key, series := range stats {
		if key.Scope == r.Scope && key.Owner != r.Owner {
			longest = max(longest, series.Cleanup.Max())
		}
	}
	return longest
}

// Human rounds a duration up to what people write: 1s, 2s, 5s, 10s … 1h30m …
// whole days.
func Human(d time.Duration) time.Duration {
	const day = 24 * time.Hour
	for _, seconds := range []int{
		1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400,
		21600, 28800, 43200,
	} {
		if step := time.Duration(seconds) * time.Second; d <= step {
			return step
		}
	}
	return (d + day - 1).Truncate(day)
}

func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, float64(MaxProposal)))
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
