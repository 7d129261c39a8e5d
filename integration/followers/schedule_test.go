package followers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A schedule is an ensemble and what goes wrong there. It comes from a seed.
type schedule struct {
	seed    uint64
	voters  int
	others  int // observers
	tick    time.Duration
	limit   int // sync limit
	elect   time.Duration
	delay   time.Duration
	drift   float64
	phases  []time.Duration
	margin  time.Duration // of the programs; 0: the default
	begin   time.Duration // when the programs start
	home    []int         // the member that each program reaches at first
	patient bool          // holds end by loss alone
	steps   []step
}

// A step is one fault, or its end.
type step struct {
	wait      time.Duration // before
	heartbeat int           // the program whose heartbeat is waited for, then; -1: none
	name      string
	do        func(w *world)
}

var programs = []string{"holder", "waiter"}

func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d/ms)+1)) * ms }
	one := func(list ...time.Duration) time.Duration { return list[r.IntN(len(list))] }
	s := &schedule{
		seed: seed, voters: 3, limit: 2 + r.IntN(6),
		tick:  one(200*ms, 500*ms, 2*time.Second, 3*time.Second, timeout/2, timeout/2),
		elect: one(0, 0, 100*ms, 200*ms, time.Second), delay: one(0, 0, ms, 30*ms),
		begin: upTo(5 * time.Second), patient: r.IntN(4) > 0,
	}
	if r.IntN(4) == 0 {
		s.voters = 5
	}
	if r.IntN(3) == 0 {
		s.others = 1
	}
	if r.IntN(4) == 0 {
		s.drift = 0.01
	}
	if r.IntN(2) == 0 { // the least that covers the drift, so that nothing hides behind it
		s.margin = 10*ms + time.Duration(s.drift*float64(timeout))
	}
	for range s.voters + s.others {
		s.phases = append(s.phases, upTo(s.tick))
	}
	for range programs {
		s.home = append(s.home, r.IntN(s.voters+s.others))
	}
	for range 2 + r.IntN(8) {
		s.add(r, upTo)
	}
	return s
}

// add makes up a step.
func (s *schedule) add(r *rand.Rand, upTo func(time.Duration) time.Duration) {
	wait, beat := upTo(time.Second), -1
	switch r.IntN(4) {
	case 0:
		wait = 0
	case 1:
		wait = upTo(6 * time.Second)
	}
	if r.IntN(2) == 0 {
		beat = r.IntN(2)
	}
	number := r.IntN(s.voters + s.others)
	second := r.IntN(s.voters + s.others)
	who := r.IntN(2)
	long := upTo(4 * time.Second)
	half := r.IntN(2) == 0
	add := func(name string, do func(w *world)) {
		s.steps = append(s.steps, step{wait, beat, name, do})
	}
	member := func(w *world) *zktest.Member { return w.e.Member(number) }
	switch r.IntN(22) {
	case 0:
		add(fmt.Sprintf("kill m%d", number), func(w *world) { member(w).Kill() })
	case 1:
		add(fmt.Sprintf("start m%d", number), func(w *world) { _ = member(w).Start() })
	case 3:
		add(fmt.Sprintf("stop m%d for %s", number, long), func(w *world) {
			member(w).Stop()
			<-time.After(long)
			member(w).Resume()
		})
	case 4:
		add(fmt.Sprintf("stop m%d", number), func(w *world) { member(w).Stop() })
	case 5:
		add(fmt.Sprintf("resume m%d", number), func(w *world) { member(w).Resume() })
	case 6:
		add(fmt.Sprintf("cut off m%d", number), func(w *world) { member(w).CutOffPeers() })
	case 7:
		add("heal", func(w *world) { w.e.Heal() })
	case 8:
		add(fmt.Sprintf("depose the leader, with m%d %t", second, half), func(w *world) {
			leader := w.e.Leader()
			if leader == nil {
				return
			}
			part := []*zktest.Member{leader}
			if half {
				part = append(part, w.e.Member(second))
			}
			depose(w, part...)
		})
	case 9:
		add(fmt.Sprintf("m%d leaves its leader", number), func(w *world) { member(w).LeaveLeader() })
	case 10:
		add(fmt.Sprintf("delay of m%d %s", number, long), func(w *world) { member(w).SetDelay(long) })
	case 11:
		add(fmt.Sprintf("no delay of m%d", number), func(w *world) { member(w).SetDelay(0) })
	case 12:
		add(fmt.Sprintf("%s reaches m%d alone", programs[who], number), func(w *world) { w.programs()[who].reach(member(w)) })
	case 13:
		add(fmt.Sprintf("%s reaches all", programs[who]), func(w *world) { w.programs()[who].reach() })
	case 14:
		add(fmt.Sprintf("answers of m%d to %s are late by %s", number, programs[who], long), func(w *world) {
			match := zktest.Op(zktest.Sync, zktest.Multi, zktest.Ping).From(programs[who])
			member(w).On(match.Times(1 + second)).DelayReply(long)
		})
	case 15:
		add(fmt.Sprintf("m%d hangs up on its clients", number), func(w *world) { member(w).Disconnect() })
	case 16:
		add(fmt.Sprintf("cut off m%d from %s", number, programs[who]), func(w *world) { member(w).CutOffClients(programs[who]) })
	default:
		add(fmt.Sprintf("kill the member of %s, which is offline", programs[who]), func(w *world) {
			p := w.programs()[who]
			p.goOffline()
			for _, m := range w.e.Members() {
				if m.Addr() == p.address() {
					m.Kill()
				}
			}
		})
	}
}

func (w *world) programs() []*program { return []*program{w.holder, w.waiter} }

func (s *schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d members, %d observers, tick %s, sync limit %d, election %s, delay %s, drift %g, phases %v\n",
		s.seed, s.voters, s.others, s.tick, s.limit, s.elect, s.delay, s.drift, s.phases)
	fmt.Fprintf(&b, "programs start at %s, at members %v, hold until lost %t, margin %s\n", s.begin, s.home, s.patient, s.margin)
	for _, x := range s.steps {
		fmt.Fprintf(&b, "after %s", x.wait)
		if x.heartbeat >= 0 {
			fmt.Fprintf(&b, " and a heartbeat of %s", programs[x.heartbeat])
		}
		fmt.Fprintf(&b, ": %s\n", x.name)
	}
	return b.String()
}

// A result is what a schedule came to.
type result struct {
	problem string // "": none
	story   string
	changes int
	busiest int // the most writes of a program in a second
}

// play plays the schedule.
func (s *schedule) play(t *testing.T) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, start: time.Now(), history: harness.NewHistory(t)}
		e, err := zktest.StartEnsemble(
			zktest.Pipe(), zktest.SessionTimeouts(time.Second, time.Hour), zktest.TickTime(s.tick),
			zktest.Members(s.voters), zktest.Observers(s.others), zktest.SyncLimit(s.limit), zktest.ElectionTime(s.elect),
			zktest.LinkDelay(s.delay), zktest.TimeoutDrift(s.drift), zktest.ClockPhases(s.phases...))
		if err != nil {
			t.Fatal(err)
		}
		w.e = e
		defer func() { _ = e.Close() }()
		holds := rand.New(rand.NewPCG(s.seed, 2))
		for i, name := range programs {
			w.until(s.begin)
			p := w.program(name, []*zktest.Member{e.Member(s.home[i])}, func(cfg *lock.Config) { cfg.Margin = s.margin })
			if i == 0 {
				w.holder = p
			} else {
				w.waiter = p
			}
			p.acquire(func() time.Duration {
				if s.patient {
					return 0
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				return time.Duration(holds.Int64N(int64(10 * time.Second)))
			})
			for end := w.now() + time.Second; i == 0 && w.held() == 0 && w.now() < end; {
				<-time.After(ms)
			}
		}
		<-time.After(3 * time.Second)
		for _, x := range s.steps {
			<-time.After(x.wait)
			synctest.Wait()
			if x.heartbeat >= 0 {
				w.programs()[x.heartbeat].heartbeat()
			}
			x.do(w)
			synctest.Wait()
		}
		<-time.After(timeout + 2*s.tick)
		synctest.Wait()
		if worst, ok := w.worst(); ok && worst.late() {
			r.problem = fmt.Sprintf("a holder was told too late: %s", worst)
		}
		r.changes, r.story = len(w.changes()), w.story()
		r.busiest = max(w.holder.busiest, w.waiter.busiest)
		w.close()
		for end := w.now() + time.Minute; !w.settled() && w.now() < end; {
			<-time.After(time.Second)
		}
		if r.problem == "" && !w.settled() {
			r.problem, r.story = "the members have not come together again", w.story()
		}
	})
	return r
}

// settled tells whether all members serve and have the same transactions.
func (w *world) settled() bool {
	synctest.Wait()
	leader := w.e.Leader()
	for _, m := range w.e.Members() {
		if leader == nil || !m.Serves() || m.Zxid() != leader.Zxid() || m.Dump() != leader.Dump() {
			return false
		}
	}
	return true
}
