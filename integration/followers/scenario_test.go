package followers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A scenario is one kind of fault, which happens at many instants.
type scenario struct {
	name   string
	opts   []zktest.Option
	drift  float64                                    // of the leader's clock
	config func(cfg *lock.Config, tick time.Duration) // nil: the defaults
	holder func(e *zktest.Ensemble) []*zktest.Member  // whom the holder reaches at first; nil: the first follower
	waiter func(e *zktest.Ensemble) []*zktest.Member  // nil: the leader
	fault  func(w *world)                             // when it is time
}

func firstFollower(e *zktest.Ensemble) []*zktest.Member { return e.Followers()[:1] }
func theLeader(e *zktest.Ensemble) []*zktest.Member     { return []*zktest.Member{e.Leader()} }
func others(e *zktest.Ensemble) []*zktest.Member        { return e.Followers()[1:] }

// isolated is a fault that the holder cannot go round: it reaches no other
// member from now on.
func isolated(fault func(w *world)) func(w *world) {
	return func(w *world) {
		w.holder.goOffline()
		fault(w)
	}
}

// afterHeartbeat waits until a heartbeat of the holder is answered.
func afterHeartbeat(fault func(w *world)) func(w *world) {
	return func(w *world) {
		w.holder.heartbeat()
		fault(w)
	}
}

// afterLateAnswers delays the answer to one heartbeat, then waits until the next
// one is answered.
func afterLateAnswer(late time.Duration, member func(e *zktest.Ensemble) *zktest.Member, fault func(w *world)) func(w *world) {
	return func(w *world) {
		m := member(w.e)
		rule := m.On(zktest.Op(zktest.Sync, zktest.Multi).From("holder").Nth(1)).DelayReply(late)
		<-rule.Reached()
		<-time.After(late)
		synctest.Wait()
		w.history.Add("holder", "the late answer has come")
		w.holder.heartbeat()
		fault(w)
	}
}

func killFollower(w *world) { w.e.Followers()[0].Kill() }

func follower(e *zktest.Ensemble) *zktest.Member { return e.Followers()[0] }

// depose makes the members that are not in the leader's part elect another
// leader, with this part cut off.
func depose(w *world, part ...*zktest.Member) {
	w.e.Split(part...)
	for _, m := range w.e.Members() {
		in := false
		for _, p := range part {
			in = in || p == m
		}
		if !in {
			m.LeaveLeader()
		}
	}
}

// deposeWith is a fault: the leader is deposed, and some of its followers with it. The holder stays with them.
func deposeWith(followers int) func(w *world) {
	return func(w *world) {
		part := append([]*zktest.Member{w.e.Leader()}, w.e.Followers()[:followers]...)
		w.holder.reach(part...)
		w.waiter.reach(w.e.Followers()[followers:]...)
		depose(w, part...)
	}
}

var scenarios = []scenario{
	{
		name:  "follower dies",
		fault: isolated(killFollower),
	},
	{
		name:  "follower dies after a heartbeat",
		fault: isolated(afterHeartbeat(killFollower)),
	},
	{
		name:   "follower dies after a heartbeat, margin of a tick",
		config: func(cfg *lock.Config, tick time.Duration) { cfg.Margin = tick },
		fault:  isolated(afterHeartbeat(killFollower)),
	},
	{
		name:  "follower dies after a heartbeat, an earlier answer was 3s late",
		fault: isolated(afterLateAnswer(3*time.Second, follower, killFollower)),
	},
	{
		name:   "follower dies after a heartbeat, an earlier answer was 3s late, margin of a tick",
		config: func(cfg *lock.Config, tick time.Duration) { cfg.Margin = tick },
		fault:  isolated(afterLateAnswer(3*time.Second, follower, killFollower)),
	},
	{
		name:  "follower dies after a heartbeat, the leader's clock is fast by 1%",
		drift: 0.01,
		fault: isolated(afterHeartbeat(killFollower)),
	},
	{
		name:  "follower dies after a heartbeat, its link is slow",
		opts:  []zktest.Option{zktest.LinkDelay(90 * ms)},
		fault: isolated(afterHeartbeat(killFollower)),
	},
	{
		name: "follower dies after a heartbeat, its link becomes slow",
		fault: isolated(func(w *world) {
			w.e.Followers()[0].SetDelay(time.Second)
			<-time.After(4 * time.Second)
			w.holder.heartbeat()
			<-time.After(2 * time.Second)
			w.e.Followers()[0].Kill()
		}),
	},
	{
		name:   "observer dies after a heartbeat",
		opts:   []zktest.Option{zktest.Observers(1)},
		holder: func(e *zktest.Ensemble) []*zktest.Member { return e.Observers() },
		fault:  isolated(afterHeartbeat(func(w *world) { w.e.Observers()[0].Kill() })),
	},
	{
		name:   "observer dies after a heartbeat, an earlier answer was 3s late",
		opts:   []zktest.Option{zktest.Observers(1)},
		holder: func(e *zktest.Ensemble) []*zktest.Member { return e.Observers() },
		fault: isolated(afterLateAnswer(3*time.Second, func(e *zktest.Ensemble) *zktest.Member { return e.Observers()[0] },
			func(w *world) { w.e.Observers()[0].Kill() })),
	},
	{
		name: "follower dies, the holder reconnects to another, which dies after a heartbeat",
		opts: []zktest.Option{zktest.Members(5)},
		fault: func(w *world) {
			first, second := w.e.Followers()[0], w.e.Followers()[1]
			w.holder.heartbeat()
			w.holder.reach(second)
			first.Kill()
			w.holder.heartbeat()
			w.holder.goOffline()
			w.holder.heartbeat()
			second.Kill()
		},
	},
	{
		name: "follower dies, the holder reconnects to another, which dies at once",
		opts: []zktest.Option{zktest.Members(5)},
		fault: func(w *world) {
			first, second := w.e.Followers()[0], w.e.Followers()[1]
			w.holder.heartbeat()
			w.holder.reach(second)
			first.Kill()
			w.holder.heartbeat() // to catch up
			w.holder.goOffline()
			second.Kill()
		},
	},
	{
		name:   "leader dies after a heartbeat",
		waiter: others,
		fault: isolated(afterHeartbeat(func(w *world) {
			w.waiter.reach(w.e.Followers()...)
			w.e.Leader().Kill()
		})),
	},
	{
		name:   "leader dies after a heartbeat, and the next one and its follower after the election",
		opts:   []zktest.Option{zktest.Members(5)},
		waiter: others,
		fault: func(w *world) {
			old := w.e.Followers()[0]
			w.waiter.reach(w.e.Followers()[1], w.e.Followers()[2], w.e.Followers()[3])
			w.holder.reach(old)
			w.holder.heartbeat()
			w.e.Leader().Kill()
			w.holder.heartbeat()
			w.holder.goOffline()
			w.holder.heartbeat()
			old.Kill()
		},
	},
	{
		name: "deposed leader, the holder at its follower", waiter: others, fault: deposeWith(1),
		opts: []zktest.Option{zktest.Members(5), zktest.ElectionTime(0)},
	},
	{
		name: "deposed leader, the holder at its follower, sync limit of 10 ticks", waiter: others, fault: deposeWith(1),
		opts: []zktest.Option{zktest.Members(5), zktest.ElectionTime(0), zktest.SyncLimit(10)},
	},
	{
		name: "deposed leader, the holder is its own client", holder: theLeader, waiter: others, fault: deposeWith(0),
		opts: []zktest.Option{zktest.ElectionTime(0)},
	},
	{
		name: "deposed leader, the holder is its own client, sync limit of 100 ticks", holder: theLeader, waiter: others, fault: deposeWith(0),
		opts: []zktest.Option{zktest.ElectionTime(0), zktest.SyncLimit(100)},
	},
	{
		name:   "leader is stopped, goes on after the election",
		opts:   []zktest.Option{zktest.SyncLimit(2)},
		holder: theLeader,
		waiter: others,
		fault: func(w *world) {
			old := w.e.Leader()
			w.holder.goOffline()
			w.waiter.reach(w.e.Followers()...)
			w.holder.heartbeat()
			old.Stop()
			<-time.After(5 * time.Second)
			old.Resume()
		},
	},
	{
		name: "follower is stopped, then killed",
		fault: isolated(afterHeartbeat(func(w *world) {
			f := w.e.Followers()[0]
			f.Stop()
			<-time.After(time.Second)
			f.Kill()
		})),
	},
	{
		name: "follower is stopped for 2s, goes on, is killed after the next heartbeat",
		fault: isolated(afterHeartbeat(func(w *world) {
			f := w.e.Followers()[0]
			f.Stop()
			<-time.After(2 * time.Second)
			f.Resume()
			synctest.Wait()
			w.holder.heartbeat()
			f.Kill()
		})),
	},
	{
		name: "follower is stopped again and again, and killed",
		fault: isolated(func(w *world) {
			f := w.e.Followers()[0]
			for range 4 {
				w.holder.heartbeat()
				f.Stop()
				<-time.After(900 * ms)
				f.Resume()
			}
			w.holder.heartbeat()
			f.Kill()
		}),
	},
	{
		name:  "follower is cut off together with the holder",
		fault: isolated(afterHeartbeat(func(w *world) { w.e.Followers()[0].CutOffPeers() })),
	},
	{
		name: "follower is cut off from the leader for 3s, then killed after a heartbeat",
		fault: isolated(func(w *world) {
			f := w.e.Followers()[0]
			f.CutOffPeers()
			<-time.After(3 * time.Second)
			f.Heal()
			synctest.Wait()
			w.holder.heartbeat()
			f.Kill()
		}),
	},
	{
		name:  "holder is cut off from its follower",
		fault: isolated(afterHeartbeat(func(w *world) { w.e.Followers()[0].CutOffClients("holder") })),
	},
	{
		name: "answers come late, then the follower dies",
		fault: isolated(func(w *world) {
			f := w.e.Followers()[0]
			rule := f.On(zktest.Op(zktest.Sync, zktest.Multi, zktest.Ping).From("holder").Times(6)).DelayReply(1500 * ms)
			<-rule.Reached()
			<-time.After(8 * time.Second)
			w.holder.heartbeat()
			f.Kill()
		}),
	},
}

// An outcome is the worst that a scenario has come to, over all instants.
type outcome struct {
	runs, red int
	change    change
	when      string
	story     string
}

// play lets a scenario happen once, with all starts later by offset. ok is whether the lock has changed hands.
func (s scenario) play(t *testing.T, tick, offset, phase time.Duration) (worst change, story string, ok bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append([]zktest.Option{zktest.TickTime(tick), zktest.ClockPhases(phase), zktest.TimeoutDrift(s.drift)}, s.opts...)...)
		var margin time.Duration
		config := func(cfg *lock.Config) {
			if s.config != nil {
				s.config(cfg, tick)
			}
			margin = cfg.MarginOf(timeout)
		}
		holds, waits := s.holder, s.waiter
		if holds == nil {
			holds = firstFollower
		}
		if waits == nil {
			waits = theLeader
		}
		w.until(offset)
		w.waiter = w.program("waiter", waits(w.e))
		w.holder = w.program("holder", holds(w.e), config)
		w.holder.acquire(forever)
		for w.held() == 0 {
			<-time.After(ms)
		}
		w.waiter.acquire(forever)
		// The client's heartbeats and the pings of its library have phases of their own.
		w.until(settled + offset + offset*337%timeout)
		require.Equal(t, 1, w.held(), "the holder holds, the waiter waits")
		s.fault(w)
		for end := w.now() + time.Minute; w.now() < end && len(w.changes()) == 0; {
			<-time.After(time.Second)
			synctest.Wait()
		}
		<-time.After(time.Second)
		synctest.Wait()
		worst, ok = w.worst()
		worst.promised = margin - time.Duration(s.drift*float64(timeout))
		story = w.story()
		w.close()
	})
	return worst, story, ok
}

const steps = 20 // of a tick

// playEvery is how many of these steps a run of the tests goes on at a time, unless
// LOCKKEEPER_FOLLOWERS_EVERY says so: 1 plays each instant.
const playEvery = 8

func TestHolderIsNotifiedBeforeAnotherIsGranted(t *testing.T) {
	every := playEvery
	if n, ok := fromEnvironment(t, "LOCKKEEPER_FOLLOWERS_EVERY"); ok {
		every = max(1, int(n))
	}
	for number, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for _, tick := range []time.Duration{200 * ms, 500 * ms, 2 * time.Second} {
				t.Run(fmt.Sprintf("tick %s", tick), func(t *testing.T) {
					var all outcome
					for _, phase := range []time.Duration{0, tick/2 - ms} {
						for i := number % every; i < 2*steps; i += every {
							offset := time.Duration(i) * tick / steps
							worst, story, ok := s.play(t, tick, offset, phase)
							if t.Failed() {
								return
							}
							if !ok {
								t.Fatalf("the lock has not changed hands (offset %s, phase %s):\n%s", offset, phase, story)
							}
							all.add(worst, fmt.Sprintf("offset %s, phase %s", offset, phase), story)
						}
					}
					t.Logf("RESULT %s: %d of %d red; worst %s (%s)", t.Name(), all.red, all.runs, all.change, all.when)
					if all.red > 0 {
						t.Errorf("a holder was told too late, worst:\n%s", all.story)
					}
				})
			}
		})
	}
}

func (o *outcome) add(c change, when, story string) {
	if c.late() {
		o.red++
	}
	if o.runs == 0 || c.gap() < o.change.gap() {
		o.change, o.when, o.story = c, when, story
	}
	o.runs++
}
