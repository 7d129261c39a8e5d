package group

import (
	"errors"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// controllerOf returns a controller of a group that no server knows of, with a
// strategy of the test's.
func controllerOf(t *testing.T, strategy assignment.StrategyFunc) *controller {
	m := aloof(t, nil)
	m.g.strategies = map[string]assignment.Strategy{"own": strategy}
	inc := newIncarnation(m, idleSession(m.c))
	t.Cleanup(func() { inc.cancel(errGroupLost) })
	c := newController(inc)
	c.a = newAssignment()
	c.spec = Spec{Name: "g", Locks: []string{"x"}, Strategy: "own"}
	c.spec.complete()
	return c
}

func TestControllerThatHasLeftWatchesNothing(t *testing.T) {
	t.Parallel()
	c := controllerOf(t, nil)
	inc := c.inc
	inc.cancel(errGroupLost)

	// given a controller that watches the spec, the participants and each of them
	require.Error(t, c.readSpec())
	require.Error(t, c.readList())
	w := &peerWatch{path: "/g/members/a"}
	w.w = c.note(&w.news)
	c.watches["guid"], c.peers["guid"] = w, &peer{}
	_, _, err := inc.s.Look(inc.ctx, w.path, &w.w)
	require.Error(t, err)
	readers := func() (n int) {
		entries := reflect.ValueOf(inc.s).Elem().FieldByName("watches").FieldByName("entries").MapRange() // the client's own
		for entries.Next() {
			n += entries.Value().Elem().FieldByName("readers").Len()
		}
		return n
	}
	require.Equal(t, 3, readers())

	c.run()
	require.Zero(t, readers())
}

func TestParticipantsAreListedAnewAfterEachReadOfTheAssignment(t *testing.T) {
	t.Parallel()
	c := controllerOf(t, nil)
	c.listNews.Store(false)
	c.learn(newAssignment(), 7)
	require.True(t, c.listNews.Load(), "one that it names and the old list lacks would be taken for gone")
	require.EqualValues(t, 7, c.version)
}

func TestStrategyThatDoesNotAnswerInTimeHasFailedAndIsNotListenedTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proceed, calls := make(chan struct{}), make(chan []string, 9)
		c := controllerOf(t, func(_, live []string, _ assignment.Assignment, _ assignment.Hints) (assignment.Assignment, error) {
			calls <- live
			<-proceed
			return assignment.Assignment{"x": {"a"}}, nil
		})
		c.thought = 300 * time.Millisecond
		a, ab := []string{"a"}, []string{"a", "b"}

		// given a strategy that thinks for longer than a moment
		kind, _, _ := c.consult(planAll, true, a)
		require.Equal(t, planNothing, kind)
		require.Equal(t, a, <-calls)
		q := c.question

		// then it is asked once, whatever happens, and looked after when its time is over
		kind, _, _ = c.consult(planAll, true, ab)
		require.Equal(t, planNothing, kind)
		require.Same(t, q, c.question)
		<-c.wake
		kind, names, got := c.consult(planNothing, true, a)
		require.Equal(t, planAll, kind)
		require.Equal(t, a, names)
		require.ErrorContains(t, got.err, "not answered within 300ms")

		// and its plan says so, and moves nothing
		next := c.a.clone()
		changed, failed := c.plan(next, kind, nil, names, nil, got)
		require.True(t, changed)
		require.Equal(t, &StrategyFailed{Strategy: "own", Err: got.err}, failed)
		require.Equal(t, got.err.Error(), next.fault)
		require.Equal(t, a, next.live)
		require.Empty(t, next.planned())

		// and what it says at last goes nowhere: it is asked anew
		close(proceed)
		<-c.wake
		require.Nil(t, c.question)
		kind, names, got = c.consult(planAll, true, ab)
		require.Equal(t, planAll, kind)
		require.Equal(t, ab, names)
		require.Equal(t, answer{plan: assignment.Assignment{"x": {"a"}}}, got)
		require.Equal(t, ab, <-calls)
	})
}

// As FailNow of a test does.
func TestStrategyThatEndsItsGoroutineHasFailed(t *testing.T) {
	t.Parallel()
	c := controllerOf(t, func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
		runtime.Goexit()
		return nil, nil
	})
	c.moment = time.Minute
	kind, _, got := c.consult(planAll, true, []string{"a"})
	require.Equal(t, planAll, kind)
	require.EqualError(t, got.err, "the strategy has ended its goroutine without an answer")
}

func TestAnswerIsHeardThoughTheMomentForItIsOver(t *testing.T) {
	t.Parallel()
	for range 30 { // the runtime picks at random among what is ready
		c := controllerOf(t, nil)
		c.moment = 0
		q := &question{end: time.Now().Add(time.Hour), answers: make(chan answer, 1)}
		q.answers <- answer{plan: assignment.Assignment{"x": {"a"}}}

		_, heard := c.hear(q)

		require.True(t, heard, "it has been woken for this answer, and would not be again")
	}
}

func TestAnswerIsOfUseOnlyWhileItsQuestionIs(t *testing.T) {
	t.Parallel()
	errFirst := errors.New("the first answer")
	for name, test := range map[string]struct {
		change func(c *controller)
		due    bool
		live   []string
		now    planKind
		want   planKind
		asked  int
	}{
		"as before":                         {due: true, live: []string{"a"}, want: planOrphans, asked: 1},
		"as before, and it is time":         {due: true, live: []string{"a"}, now: planAll, want: planAll, asked: 1},
		"another one has come":              {due: true, live: []string{"a", "b"}, now: planAll, want: planOrphans, asked: 1},
		"the missing ones are back":         {live: []string{"a", "z"}, want: planNothing, asked: 1},
		"the spec is another":               {change: func(c *controller) { c.specAt++ }, due: true, live: []string{"a"}, now: planAll, want: planAll, asked: 2},
		"the plan is another":               {change: func(c *controller) { c.a.generation++ }, due: true, live: []string{"a"}, now: planAll, want: planAll, asked: 2},
		"the spec is another, not its time": {change: func(c *controller) { c.specAt++ }, due: true, live: []string{"a"}, want: planNothing, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // where an answer comes before the moment in which it is listened for is over
				proceed, asked := make(chan struct{}), make(chan struct{}, 9)
				c := controllerOf(t, func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
					asked <- struct{}{}
					<-proceed
					return nil, errFirst
				})
				kind, _, _ := c.consult(planOrphans, true, []string{"a"})
				require.Equal(t, planNothing, kind)
				close(proceed)
				<-c.wake
				if test.change != nil {
					test.change(c)
				}
				kind, _, got := c.consult(test.now, test.due, test.live)
				require.Equal(t, test.want, kind)
				if kind != planNothing {
					require.ErrorIs(t, got.err, errFirst)
				}
				require.Nil(t, c.question)
				require.Len(t, asked, test.asked)
			})
		})
	}
}
