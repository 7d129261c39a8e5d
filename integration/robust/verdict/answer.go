package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// promptness is how long a call may take after its time is over: it waits half a
// second for its request to be gone, and machines are busy.
const promptness = 3 * time.Second

// tryTimeout is how long a call with an acquire timeout of 0 waits for ZooKeeper
// to answer: the connect timeout of the clients.
const tryTimeout = 5 * time.Second

// answers checks that a call returns in time, with a grant or a reason that
// the request allows: what fails for no reason at all would keep every other
// promise.
func (c *chronicle) answers(end time.Duration) (found []Violation) {
	for _, h := range c.sorted() {
		if h.request == nil {
			continue
		}
		fail := func(at time.Duration, format string, args ...any) {
			found = append(found,
				Violation{Check: CheckAnswer, Scope: h.Scope, At: at, Holds: []*Hold{h}, Text: fmt.Sprintf(format, args...)})
		}
		if why := h.unfounded(c); why != "" {
			fail(h.answered, "%s failed, %s: %s", h, why, h.answer.Err)
		}
		switch answer := h.released.Reason; answer {
		case history.AnswerDone, history.AnswerLost, history.AnswerAsked, history.AnswerGaveUp:
		case history.AnswerUnavailable:
			if c.quiet(h, h.Ended, h.released.At) {
				fail(h.released.At, "%s was not released, for no reason: %s", h, h.released.Err)
			}
		default:
			fail(h.released.At, "%s was not released: %s", h, h.released.Err)
		}
		until, bounded := h.bound()
		// granted in time; then the guard asks for the token for as long as the session lasts
		if h.Guarded && h.answer.Reason == history.AnswerLost {
			bounded = false
		}
		got := cmp.Or(h.Granted, h.answered, c.killed[h.Client], end)
		if late := got - until; bounded && late > promptness &&
			!slices.ContainsFunc(h.spans, func(s span) bool { return s.from <= got && s.to >= h.Invoked }) {
			fail(got, "%s had no answer %s after its time was over", h, late)
		}
	}
	return found
}

// unfounded returns why the request cannot have failed as its caller was told.
func (h *Hold) unfounded(c *chronicle) string {
	q := h.request
	took := h.answered - h.Invoked
	before := func(d time.Duration) string {
		if took < d-time.Millisecond {
			return fmt.Sprintf("%s before its time was over", d-took)
		}
		return ""
	}
	switch {
	case h.answered == 0:
		return ""
	case h.answer.Reason == history.AnswerTimeout && q.Acquire != nil:
		return before(*q.Acquire)
	case h.answer.Reason == history.AnswerPending && q.Waiting != nil && !q.Forceful:
		return before(*q.Waiting)
	case h.answer.Reason == history.AnswerGaveUp && q.GiveUp > 0:
		return before(q.GiveUp)
	case h.answer.Reason == history.AnswerLost, h.answer.Reason == history.AnswerAsked && h.Guarded:
		// granted, and before the work began
		return ""
	case h.answer.Reason == history.AnswerEvicted && h.seized: // likewise
		return ""
	case h.answer.Reason == history.AnswerUnavailable &&
		(!c.quiet(h, h.Invoked, h.answered) || q.GiveUp > 0 && took >= q.GiveUp):
		return ""
	}
	return "which it had no reason for"
}

// bound returns when the request has to have an answer, if it says so.
func (h *Hold) bound() (until time.Duration, ok bool) {
	if a := h.request.Acquire; a != nil {
		until, ok = *a, true
		if until == 0 {
			until = tryTimeout
		}
	}
	if g := h.request.GiveUp; g > 0 && (!ok || g < until) {
		until, ok = g, true
	}
	return h.Invoked + until, ok
}
