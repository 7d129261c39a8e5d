package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// groupLongestThought is how long a strategy may think. It counts as failed
// then.
const groupLongestThought = 30 * time.Second

// A question is one that the strategy was asked. While it thinks, locks go on
// moving as they were planned before.
type question struct {
	kind       planKind
	live       []string
	generation int64
	spec       int32
	end        time.Time
	late       *time.Timer // wakes the controller at the end
	answers    chan answer // one, at last
}

type answer struct {
	plan assignment.Assignment
	err  error
}

// consult asks the strategy when there is something to plan. It returns what is
// to be planned now, for which participants, and the strategy's answer;
// planNothing while there is none. due is set while there will be something to
// plan.
func (c *controller) consult(kind planKind, due bool, live []string) (planKind, []string, answer) {
	if q := c.question; q != nil && (q.generation != c.a.generation || q.spec != c.specAt) {
		c.drop() // the answer is not needed any more
	}
	if c.question == nil {
		if kind == planNothing {
			return planNothing, nil, answer{}
		}
		c.question = c.ask(kind, live)
	}
	q := c.question
	got, answered := c.hear(q)
	if !answered {
		return planNothing, nil, answer{}
	}
	c.drop()
	switch {
	case !due: // the missing participants are back
		return planNothing, nil, answer{}
	case slices.Equal(q.live, live):
		return max(q.kind, kind), q.live, got
	}
	return q.kind, q.live, got // who has come or gone since is the next question
}

// drop listens to the strategy no more.
func (c *controller) drop() {
	if c.question != nil {
		c.question.late.Stop()
		c.question = nil
	}
}

// ask asks the strategy in the background.
func (c *controller) ask(kind planKind, live []string) *question {
	q := &question{
		kind: kind, live: live, generation: c.a.generation, spec: c.specAt,
		end: time.Now().Add(c.thought), late: time.AfterFunc(c.thought, c.poke), answers: make(chan answer, 1),
	}
	strategy, err := c.inc.m.g.strategy(c.spec.Strategy)
	if err != nil {
		q.answers <- answer{err: err}
		return q
	}
	locks, previous, hints := c.spec.Locks, c.a.planned(), c.spec.hints() // the controller goes on
	go func() {
		defer c.poke()
		got := answer{err: errors.New("the strategy has ended its goroutine without an answer")}
		defer func() { q.answers <- got }()
		got.plan, got.err = assignment.Run(strategy, locks, live, previous, hints)
	}()
	return q
}

// hear returns the answer to a question, if there is one. It waits a moment,
// since most strategies do not need longer: what they plan is then written
// together with what happens anyway.
func (c *controller) hear(q *question) (answer, bool) {
	select {
	case got := <-q.answers: // even if the moment should be over before the wait for it begins
		return got, true
	default:
	}
	moment := time.NewTimer(c.moment)
	defer moment.Stop()
	select {
	case got := <-q.answers:
		return got, true
	case <-c.inc.ctx.Done():
		return answer{}, false
	case <-moment.C:
	}
	if time.Now().Before(q.end) {
		return answer{}, false
	}
	return answer{err: fmt.Errorf("the strategy has not answered within %s", c.thought)}, true
}
