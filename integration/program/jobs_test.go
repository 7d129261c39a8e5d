package program

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// The daemon of a story about jobs is the story itself: what it decides, and
// when, is written in the script.

// tick decides the tick of a job at an instant: it ran, failed, ..., or was
// skipped, for a reason.
func tick(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 3, "tick JOB INSTANT OUTCOME [REASON]")
	s := storyOf(ts)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	instant, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	reason := strings.Join(args[3:], " ")
	if args[2] == string(ticks.Skipped) {
		_, err := s.ledger.RecordSkip(ctx, args[0], reason, instant)
		ts.Check(err)
		return
	}
	claim, err := s.ledger.Claim(ctx, args[0], instant, ticks.Ask{})
	ts.Check(err)
	if claim.Verdict != ticks.Claimed {
		ts.Fatalf("the claim is %s", claim.Verdict)
	}
	s.began(args[0], claim.Run)
	if args[2] != "begins" {
		s.finish(ctx, ts, args[0], args[2], reason)
	}
}

// takes waits until somebody asks to run a job by hand, and begins that run.
func takes(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "takes JOB")
	s := storyOf(ts)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	claim, err := s.ledger.ClaimRequest(ctx, s.awaitRequest(ctx, ts, args[0]), 1)
	ts.Check(err)
	if claim.Verdict != ticks.Claimed {
		ts.Fatalf("the claim is %s", claim.Verdict)
	}
	s.began(args[0], claim.Run)
}

// asked waits until somebody asks to run a job by hand.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "asked JOB")
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	storyOf(ts).awaitRequest(ctx, ts, args[0])
}

func (s *story) awaitRequest(ctx context.Context, ts *testscript.TestScript, job string) ticks.Request {
	var all ticks.Requests
	for {
		var err error
		all, err = s.ledger.AwaitRequests(ctx, all)
		ts.Check(err)
		if i := slices.IndexFunc(all.Standing, func(r ticks.Request) bool { return r.Job == job }); i >= 0 {
			return all.Standing[i]
		}
	}
}

// finishes ends the run of a job that the story has begun.
func finishes(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "finishes JOB OUTCOME [REASON]")
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	storyOf(ts).finish(ctx, ts, args[0], args[1], strings.Join(args[2:], " "))
}

// unasked checks that there is no request for a run.
func unasked(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 0, "unasked")
	s := storyOf(ts)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	// The answer that differs from this one is the present.
	standing, err := s.ledger.AwaitRequests(ctx, ticks.Requests{Standing: []ticks.Request{{ID: "none"}}})
	ts.Check(err)
	if len(standing.Standing) > 0 {
		ts.Fatalf("these stand: %+v", standing)
	}
}

func (s *story) began(job string, run ticks.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[job] = run
}

func (s *story) finish(ctx context.Context, ts *testscript.TestScript, job, outcome, reason string) {
	s.mu.Lock()
	run, ok := s.runs[job]
	delete(s.runs, job)
	s.mu.Unlock()
	if !ok {
		ts.Fatalf("no run of %s has begun here", job)
	}
	_, err := s.ledger.Finish(ctx, run, ticks.End{
		Outcome: ticks.Outcome(outcome), Reason: reason, Token: 77, Waited: time.Second, Took: 2 * time.Second, Attempts: 2,
	})
	ts.Check(err)
}
