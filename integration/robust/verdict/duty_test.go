package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

const ms = time.Millisecond

// want says what a request asks for.
func (b *book) want(who string, level int32, q history.Request) *book {
	for i := range *b {
		if e := &(*b)[i]; e.Who == who && e.Kind == history.Invoked {
			e.Priority, e.Request = level, &q
		}
	}
	return b
}

// fail: invoked at from, refused at to.
func (b *book) fail(who string, from, to int, answer string) *book {
	b.add(from, history.Invoked, who, nil)
	return b.add(to, history.Failed, who, func(e *history.Event) { e.Reason = answer })
}

func (b *book) released(who string, at int, answer string) *book {
	return b.add(at, history.Released, who, func(e *history.Event) { e.Reason = answer })
}

func (b *book) why(reason string) *book {
	(*b)[len(*b)-1].Reason = reason
	return b
}

// others have the lock one after the other, for a second each. Half of them call
// long before.
func (b *book) others(n int) *book {
	for i := range n {
		who := "x" + string(rune('A'+i)) + "/1"
		b.grant(who, i%2*1000*(i+1)-1, 1000*(i+1), int64(i+1)).release(who, 1000*(i+1)+900).want(who, 10, history.Request{})
	}
	return b
}

// line is a queue in which who waits from 0 to 6000, and others have the lock.
func line(who string, n int) *book {
	return new(book).add(1, history.Queued, who, nil).others(n).grant(who, 0, 6000, 100).release(who, 6001)
}

func TestHistoriesInWhichAllDoTheirDuty(t *testing.T) {
	lease := history.Request{Lease: time.Second, Cleanup: 50 * ms}
	force := history.Request{Lease: time.Second, Forceful: true}
	evict := func(by history.Request, level int32) *book {
		return new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 200, "a/1").grant("b/1", 0, 200, 6).lose("a/1", 201, "taken", "b/1").
			want("a/1", 10, lease).want("b/1", level, by)
	}
	for name, b := range map[string]*book{
		"failed in time": new(book).fail("a/1", 0, 10, history.AnswerTimeout).want("a/1", 0, history.Request{Acquire: new(10 * ms)}),
		"a try failed":   new(book).fail("a/1", 0, 1, history.AnswerTimeout).want("a/1", 0, history.Request{Acquire: new(time.Duration(0))}),
		"gave up":        new(book).fail("a/1", 0, 10, history.AnswerGaveUp).want("a/1", 0, history.Request{GiveUp: 10 * ms}),
		"polite":         new(book).fail("a/1", 0, 10, history.AnswerPending).want("a/1", 0, history.Request{Waiting: new(10 * ms)}),
		"granted in time to a guard, whose token never came": new(book).
			add(0, history.Invoked, "a/1", func(e *history.Event) { e.Guarded = true }).add(4000, history.Failed, "a/1", nil).why(history.AnswerLost).
			want("a/1", 0, history.Request{Acquire: new(10 * ms)}),
		"granted, and taken over before it heard":   new(book).fail("a/1", 0, 10, history.AnswerLost).want("a/1", 0, history.Request{}),
		"granted, and taken over, without a reason": new(book).fail("a/1", 0, 10, history.AnswerEvicted).want("a/1", 0, history.Request{}).takeOver("b/1", 5, "a/1"),
		"no server answered":                        new(book).fail("a/1", 0, 10, history.AnswerUnavailable).span(history.Faulty, "a", 5, 6).want("a/1", 0, history.Request{}),
		"the servers were silent":                   new(book).fail("a/1", 0, 10, history.AnswerUnavailable).span(history.Faulty, "", 5, 6).want("a/1", 0, history.Request{}),
		"late, because it was stopped": new(book).fail("a/1", 0, 9000, history.AnswerTimeout).span(history.Paused, "a", 5, 8999).
			want("a/1", 0, history.Request{Acquire: new(10 * ms)}),
		"killed before its time was over": new(book).add(0, history.Invoked, "a/1", nil).want("a/1", 0, history.Request{Acquire: new(10 * ms)}).
			span(history.Killed, "a", 0, 5).grant("b/1", 9000, 9001, 5),
		"released when it was preempted": new(book).grant("a/1", 0, 1, 5).release("a/1", 2).released("a/1", 3, history.AnswerAsked).want("a/1", 0, lease),
		"preempted for a priority": new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 60).why("outranked").fail("b/1", 0, 20, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 20, history.Request{GiveUp: 20 * ms, Delta: 10}),
		"preempted for its lease": new(book).grant("a/1", 0, 1, 5).ask("a/1", 1001, "b/1", 1060).why("lease").fail("b/1", 0, 2000, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 0, history.Request{GiveUp: 20 * ms, Never: true}),
		"preempted after its minimum runtime": new(book).grant("a/1", 0, 1, 5).ask("a/1", 70, "b/1", 90).why("outranked").fail("b/1", 0, 80, history.AnswerGaveUp).
			want("a/1", 10, history.Request{Lease: time.Second, MinRuntime: 70 * ms}).want("b/1", 20, history.Request{GiveUp: 20 * ms}),
		"preempted for a lease that was made shorter": new(book).grant("a/1", 0, 1, 5).want("a/1", 10, lease).
			add(2, history.Extending, "a/1", func(e *history.Event) { e.Deadline = 502 * ms }).ask("a/1", 502, "b/1", 560).why("lease").
			fail("b/1", 0, 600, history.AnswerGaveUp).want("b/1", 0, history.Request{GiveUp: 20 * ms}),
		"preempted, but clocks disagree": new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 60).why("lease").fail("b/1", 0, 20, history.AnswerGaveUp).
			span(history.Skewed, "", 5, 6).want("a/1", 10, lease).want("b/1", 10, history.Request{GiveUp: 20 * ms}),
		"preempted by one that queued while clocks disagreed": new(book).grant("a/1", 10, 11, 5).ask("a/1", 20, "b/1", 60).why("lease").
			fail("b/1", 0, 30, history.AnswerGaveUp).span(history.Skewed, "", 5, 6).want("a/1", 10, lease).want("b/1", 10, history.Request{GiveUp: 20 * ms}),
		"evicted after the grace":                         evict(force, 20).ask("a/1", 140, "b/1", 190).why("outranked"),
		"evicted when it was cut off from the asking":     evict(force, 20).span(history.Faulty, "a", 100, 120),
		"evicted when the evictor's own network was slow": evict(force, 20).span(history.Faulty, "b", 100, 120),
		"evicted, and a server was slow":                  evict(force, 20).span(history.Slow, "", 160, 180),
		"evicted before it heard that it held, and told at once after that": new(book).grant("a/1", 0, 60, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 70, "taken", "b/1"),
		"evicted, and told late by a slow server": new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 50, "taken", "b/1").span(history.Slow, "", 15, 49),
		"evicted without a grace":              evict(force, 20).want("a/1", 10, history.Request{Lease: time.Second}),
		"evicted by one that gives it no time": evict(history.Request{Forceful: true, Waiting: new(time.Duration(0))}, 20),
		"evicted after its lease, politely": evict(history.Request{}, 10).want("a/1", 10, history.Request{Lease: 150 * ms, Cleanup: 50 * ms}).
			ask("a/1", 150, "b/1", 200).why("lease"),
		"released before it was evicted": new(book).grant("a/1", 0, 1, 5).release("a/1", 100).takeOver("b/1", 200, "a/1").grant("b/1", 0, 200, 6).
			want("a/1", 10, lease).want("b/1", 20, force),
		"a few go first": line("w/1", 3).want("w/1", 20, history.Request{}),
		"many share, and hear of it first": new(book).add(1, history.Queued, "w/1", nil).share("xA/1", 0, 990, 5).share("xB/1", 0, 991, 5).share("xC/1", 0, 992, 5).
			share("xD/1", 0, 993, 5).share("xE/1", 0, 994, 5).share("w/1", 0, 1000, 5).want("w/1", 20, history.Request{}),
		"equals go first":           line("w/1", 5).want("w/1", 10, history.Request{}),
		"many while it is cut off":  line("w/1", 5).want("w/1", 20, history.Request{}).span(history.Faulty, "w", 10, 20),
		"many, but it queued again": line("w/1", 5).want("w/1", 20, history.Request{}).add(5990, history.Requeued, "w/1", nil),
		"it leaves, and that takes a while": new(book).add(0, history.Invoked, "w/1", nil).add(1, history.Queued, "w/1", nil).others(5).
			add(4800, history.Failed, "w/1", nil).why(history.AnswerGaveUp).want("w/1", 20, history.Request{GiveUp: 2 * time.Second}),
		"free for a while": new(book).add(0, history.Invoked, "a/1", nil).add(1, history.Queued, "a/1", nil).add(19_000, history.Granted, "a/1", nil),
		"free while servers were down": new(book).add(0, history.Invoked, "a/1", nil).add(1, history.Queued, "a/1", nil).add(39_000, history.Granted, "a/1", nil).
			span(history.Faulty, "", 10_000, 20_000),
		"somebody holds all the time": new(book).add(0, history.Invoked, "a/1", nil).add(1, history.Queued, "a/1", nil).add(39_000, history.Granted, "a/1", nil).
			share("b/1", 0, 2, 0).release("b/1", 30_000).share("d/1", 0, 3, 0).release("d/1", 4).share("c/1", 0, 29_000, 0).release("c/1", 38_000),
		"an eviction without a notice, noticed in time": new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").add(0, history.Invoked, "b/1", nil).
			span(history.Killed, "b", 0, 11).grant("c/1", 0, 20, 7).lose("a/1", 110, "taken", "b/1").span(history.Faulty, "a", 15, 100),
		"evicted before it heard that it held, told in time after that": new(book).grant("a/1", 0, 80, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 110, "session", "").span(history.Faulty, "", 5, 6),
		"stopped again and again": new(book).grant("a/1", 0, 1, 5).span(history.Paused, "a", 10, 200).span(history.Paused, "a", 205, 400).
			grant("b/1", 0, 150, 6).release("b/1", 160).lose("a/1", 401, "session", ""),
		"writes of its own, some of them after a pause": new(book).grant("a/1", 0, 1, 5).use(history.Wrote, "a/1", 2, 5, 1).span(history.Paused, "a", 3, 4).
			use(history.Wrote, "a/1", 5, 5, 2).use(history.Wrote, "a/1", 300, 5, 3).use(history.Wrote, "a/1", 301, 5, 4).release("a/1", 302),
		"asked again after all had withdrawn": new(book).grant("a/1", 0, 1, 5).ask("a/1", 2, "b/1", 300).add(3, history.Withdrawn, "a/1", nil).
			ask("a/1", 100, "b/1", 190).takeOver("b/1", 200, "a/1").grant("b/1", 0, 200, 6).lose("a/1", 201, "taken", "b/1"),
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, b.judge().Violations) })
	}
}

func TestHistoriesInWhichSomebodyNeglectsADuty(t *testing.T) {
	lease := history.Request{Lease: time.Second, Cleanup: 50 * ms}
	force := history.Request{Lease: time.Second, Forceful: true}
	evict := func(by history.Request, level int32) *book {
		return new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 200, "a/1").grant("b/1", 0, 200, 6).lose("a/1", 201, "taken", "b/1").
			want("a/1", 10, lease).want("b/1", level, by)
	}
	for name, c := range map[string]struct {
		b    *book
		want string
	}{
		"a timeout that was not asked for":       {new(book).fail("a/1", 0, 10, history.AnswerTimeout).want("a/1", 0, history.Request{GiveUp: 5 * ms}), CheckAnswer},
		"a timeout before its time":              {new(book).fail("a/1", 0, 5, history.AnswerTimeout).want("a/1", 0, history.Request{Acquire: new(10 * ms)}), CheckAnswer},
		"gave up before its time":                {new(book).fail("a/1", 0, 5, history.AnswerGaveUp).want("a/1", 0, history.Request{GiveUp: 10 * ms}), CheckAnswer},
		"gave up without being told to":          {new(book).fail("a/1", 0, 5, history.AnswerGaveUp).want("a/1", 0, history.Request{}), CheckAnswer},
		"polite, and forceful":                   {new(book).fail("a/1", 0, 10, history.AnswerPending).want("a/1", 0, history.Request{Waiting: new(10 * ms), Forceful: true}), CheckAnswer},
		"polite before its time":                 {new(book).fail("a/1", 0, 9, history.AnswerPending).want("a/1", 0, history.Request{Waiting: new(20 * ms)}), CheckAnswer},
		"no server answered, for no reason":      {new(book).fail("a/1", 0, 10, history.AnswerUnavailable).span(history.Faulty, "b", 5, 6).want("a/1", 0, history.Request{}), CheckAnswer},
		"its place was deleted":                  {new(book).fail("a/1", 0, 10, history.AnswerEvicted).want("a/1", 0, history.Request{}), CheckAnswer},
		"an error that says nothing":             {new(book).fail("a/1", 0, 10, "bad version").want("a/1", 0, history.Request{GiveUp: 5 * ms, Acquire: new(5 * ms)}), CheckAnswer},
		"a release that fails":                   {new(book).grant("a/1", 0, 1, 5).release("a/1", 2).released("a/1", 3, "bad version").want("a/1", 0, lease), CheckAnswer},
		"a release that ZooKeeper does not hear": {new(book).grant("a/1", 0, 1, 5).release("a/1", 2).released("a/1", 3, history.AnswerUnavailable).want("a/1", 0, lease), CheckAnswer},
		"a grant that is late":                   {new(book).grant("a/1", 0, 4000, 5).release("a/1", 4001).want("a/1", 0, history.Request{Acquire: new(10 * ms)}), CheckAnswer},
		"a refusal that is late, by the shorter time": {new(book).fail("a/1", 0, 4000, history.AnswerGaveUp).
			want("a/1", 0, history.Request{GiveUp: 10 * ms, Acquire: new(time.Minute)}), CheckAnswer},
		"a refusal that is late": {new(book).fail("a/1", 0, 4000, history.AnswerGaveUp).want("a/1", 0, history.Request{GiveUp: 10 * ms}), CheckAnswer},
		"a try that hangs":       {new(book).fail("a/1", 0, 9000, history.AnswerTimeout).want("a/1", 0, history.Request{Acquire: new(time.Duration(0))}), CheckAnswer},
		"no answer at all": {new(book).add(0, history.Invoked, "a/1", nil).want("a/1", 0, history.Request{GiveUp: 10 * ms}).
			grant("b/1", 9000, 9001, 5), CheckAnswer},
		"preempted by an equal": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 60).why("outranked").fail("b/1", 0, 20, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 10, history.Request{GiveUp: 20 * ms}), CheckRight},
		"preempted by one that has to be more important by far": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 60).why("outranked").fail("b/1", 0, 20, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 20, history.Request{GiveUp: 20 * ms, Delta: 20}), CheckRight},
		"preempted by one that does not preempt": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 60).why("outranked").fail("b/1", 0, 20, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 20, history.Request{GiveUp: 20 * ms, Never: true}), CheckRight},
		"preempted while the lease runs": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 900, "b/1", 960).why("lease").fail("b/1", 0, 2000, history.AnswerGaveUp).
			want("a/1", 10, lease).want("b/1", 20, history.Request{GiveUp: 20 * ms}), CheckRight},
		"preempted in its minimum runtime": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 60, "b/1", 90).why("outranked").fail("b/1", 0, 80, history.AnswerGaveUp).
			want("a/1", 10, history.Request{Lease: time.Second, MinRuntime: 70 * ms}).want("b/1", 20, history.Request{GiveUp: 20 * ms}), CheckRight},
		"preempted by an equal that queued while clocks disagreed": {new(book).grant("a/1", 10, 11, 5).ask("a/1", 20, "b/1", 60).why("outranked").
			fail("b/1", 0, 30, history.AnswerGaveUp).span(history.Skewed, "", 5, 6).want("a/1", 10, lease).want("b/1", 10, history.Request{GiveUp: 20 * ms}), CheckRight},
		"preempted for its lease by one that queued after clocks disagreed": {new(book).grant("a/1", 10, 11, 5).ask("a/1", 20, "b/1", 60).why("lease").
			fail("b/1", 7, 30, history.AnswerGaveUp).span(history.Skewed, "", 5, 6).want("a/1", 10, lease).want("b/1", 10, history.Request{GiveUp: 20 * ms}), CheckRight},
		"evicted by an equal":             {evict(force, 10).ask("a/1", 140, "b/1", 190), CheckRight},
		"evicted by an equal, unheard":    {evict(force, 10).span(history.Faulty, "a", 100, 120), CheckRight},
		"evicted by a polite one":         {evict(history.Request{}, 20).ask("a/1", 140, "b/1", 190).why("outranked"), CheckRight},
		"evicted, and had not been asked": {evict(force, 20), CheckRight},
		"evicted, and asked by another":   {evict(force, 20).ask("a/1", 140, "c/1", 190), CheckRight},
		"many less important go first":    {line("w/1", 4).want("w/1", 20, history.Request{}), CheckTurn},
		"free, and somebody waits":        {new(book).add(0, history.Invoked, "a/1", nil).add(1, history.Queued, "a/1", nil).grant("b/1", 0, 20_500, 5), CheckTurn},
		"free between two holds": {new(book).add(0, history.Invoked, "a/1", nil).add(1, history.Queued, "a/1", nil).grant("b/1", 0, 10, 5).release("b/1", 20).
			grant("c/1", 0, 20_500, 6), CheckTurn},
		"an eviction without a notice, noticed late": {new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").add(0, history.Invoked, "b/1", nil).
			span(history.Killed, "b", 0, 11).grant("c/1", 0, 20, 7).lose("a/1", 130, "taken", "b/1"), CheckEvicted},
		"evicted, and told late, a server had been slow before": {new(book).span(history.Slow, "", 2, 5).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").
			grant("b/1", 0, 10, 6).release("b/1", 20).lose("a/1", 50, "taken", "b/1"), CheckEvicted},
		"evicted before it heard that it held, told late after that": {new(book).grant("a/1", 0, 30, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 70, "taken", "b/1"), CheckEvicted},
		"evicted before it heard that it held, told late": {new(book).grant("a/1", 0, 80, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 120, "session", ""), CheckEvicted},
		"evicted, connected, and told late": {new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").grant("b/1", 0, 10, 6).
			release("b/1", 20).lose("a/1", 50, "taken", "b/1"), CheckEvicted},
		"others write meanwhile": {new(book).grant("a/1", 0, 1, 5).use(history.Wrote, "a/1", 2, 5, 1).use(history.Wrote, "a/1", 5, 5, 3).release("a/1", 6), CheckReader},
		"others write before it shares": {new(book).grant("a/1", 0, 1, 5).use(history.Wrote, "a/1", 2, 5, 1).
			add(3, history.Downgrading, "a/1", nil).use(history.Read, "a/1", 5, 5, 2).release("a/1", 6), CheckReader},
		"evicted too early, when asked anew": {new(book).grant("a/1", 0, 1, 5).ask("a/1", 2, "b/1", 30).add(31, history.Withdrawn, "a/1", nil).
			ask("a/1", 100, "b/1", 290).takeOver("b/1", 200, "a/1").grant("b/1", 0, 200, 6).lose("a/1", 201, "taken", "b/1"), CheckGrace},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, []string{c.want}, c.b.found()) })
	}
}

// Each of these was an excuse once.
func TestExcusesReachNoFurtherThanTheyMust(t *testing.T) {
	for name, b := range map[string]*book{
		"starved, and told long after that":      new(book).grant("a/1", 0, 1, 5).span(history.Stalled, "a", 10, 20).grant("b/1", 0, 50, 6).lose("a/1", 60, "session", ""),
		"granted after its session was closed":   new(book).span(history.Expired, "a", 0, 1).grant("a/1", 0, 30, 5).grant("b/1", 0, 50, 6).lose("a/1", 60, "session", ""),
		"its session was closed again":           new(book).grant("a/1", 0, 1, 5).span(history.Expired, "a", 2, 3).grant("b/1", 0, 50, 6).span(history.Expired, "a", 90, 91).lose("a/1", 150, "session", ""),
		"its session was closed a long time ago": new(book).grant("a/1", 0, 1, 5).span(history.Expired, "a", 2, 3).grant("b/1", 0, 50, 6).lose("a/1", 150, "session", ""),
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, []string{CheckModel, CheckTold}, b.found()) })
	}
}
