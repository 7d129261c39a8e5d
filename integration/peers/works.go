package peers

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// A Work is one thing that contestants do in turn.
type Work struct {
	// Group is what it is chosen by, Name tells it from the others of its group.
	Group, Name string

	// Processes is how many processes of each contestant do it, each with Workers workers.
	Processes, Workers int

	// Clients is how many connections the workers of a process share. 0: each has one.
	Clients int

	// One says that all want the same lock; otherwise every worker has one of its own.
	One bool

	// Inside is how long the lock is kept.
	Inside time.Duration

	// LocalQueue gives our clients a local queue of that length (lock.Config.LocalQueue). 0: none, as is the default.
	LocalQueue int

	// Shared asks for shared mode, Permits for a semaphore.
	Shared  bool
	Permits int

	// Kinds are who does it.
	Kinds []string
}

// The groups that are more than cycles: they have tables of their own.
const (
	GroupQueue    = "queue"    // hand-overs with many waiters
	GroupPreempt  = "preempt"  // preemption and takeover
	GroupFailover = "failover" // the process that holds the lock is killed
)

// special are those groups, in the order in which they are measured.
func special() []string { return []string{GroupQueue, GroupPreempt, GroupFailover} }

// Works returns what is measured in cycles.
func Works() []Work {
	var works []Work
	for _, clients := range []int{1, 8, 32} {
		works = append(works, Work{
			Group: "own", Name: fmt.Sprintf("own locks, %s", count(clients, "client")), Processes: 1, Workers: clients,
			Kinds: []string{Product, "raw", "zklock", "curator-mutex", "kazoo", "etcd", "redis"},
		})
	}
	insides := []time.Duration{0, time.Millisecond, 10 * time.Millisecond}
	for _, clients := range []int{2, 8, 32} {
		for _, inside := range insides {
			works = append(works, Work{
				Group: "contended", Name: fmt.Sprintf("one lock, %d clients, %s", clients, during(inside)), Processes: 1,
				Workers: clients, One: true, Inside: inside,
				Kinds: []string{Product, "zklock", "curator-mutex", "kazoo", "etcd", "redis"},
			})
		}
	}
	for _, inside := range insides {
		works = append(works, Work{
			Group: "processes", Name: fmt.Sprintf("one lock, 8 processes × 16 clients, %s", during(inside)), Processes: 8,
			Workers: 16, One: true, Inside: inside, Kinds: []string{Product, "zklock", "curator-mutex"},
		})
	}
	crowd := Work{
		Group: "crowd", Name: "one lock, 100 at once in one process, 1 client", Processes: 1, Workers: 100, Clients: 1,
		One: true, Kinds: []string{Product, "zklock", "curator-mutex"},
	}
	works = append(works, crowd)
	for _, inside := range insides[:2] {
		local := crowd
		local.Name = "the same 100 with a local queue, " + during(inside)
		local.LocalQueue, local.Inside = crowd.Workers, inside
		works = append(works, local)
	}
	return append(works,
		Work{
			Group: "shared", Name: "one lock, 8 readers", Processes: 1, Workers: 8,
			One: true, Shared: true, Kinds: []string{Product, "curator-rw"},
		},
		Work{
			Group: "semaphore", Name: "4 permits, 8 clients", Processes: 1, Workers: 8,
			One: true, Permits: 4, Kinds: []string{Product, "curator-semaphore"},
		},
		Work{
			Group: "semaphore", Name: "4 permits, 8 clients, 1 ms inside", Processes: 1, Workers: 8,
			One: true, Permits: 4, Inside: time.Millisecond, Kinds: []string{Product, "curator-semaphore"},
		})
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprint(n, " ", what)
	}
	return fmt.Sprint(n, " ", what, "s")
}

func during(inside time.Duration) string {
	if inside == 0 {
		return "no work"
	}
	return fmt.Sprintf("%d ms inside", inside.Milliseconds())
}

// Groups returns the names by which works are chosen.
func Groups() []string {
	var groups []string
	for _, w := range Works() {
		if !slices.Contains(groups, w.Group) {
			groups = append(groups, w.Group)
		}
	}
	return append(groups, special()...)
}

// turn returns the turn of one of the processes.
func (w Work) turn(process int, length time.Duration) contestant.Turn {
	t := contestant.Turn{
		Do: contestant.Cycles, Clients: w.Clients, Seconds: length.Seconds(), WorkMicros: int(w.Inside.Microseconds()),
		Permits: w.Permits, Shared: w.Shared, LocalQueue: w.LocalQueue,
	}
	for i := range w.Workers {
		// a name does not say how long the work takes: the same nodes for all
		lock := fmt.Sprintf("%s-%d", w.Group, w.Workers)
		if !w.One {
			lock += fmt.Sprintf("-%d-%d", process, i)
		}
		t.Locks = append(t.Locks, lock)
	}
	return t
}

// length returns how long a turn has to be that each worker comes in twice.
func (w Work) length(turn time.Duration) time.Duration {
	if !w.One {
		return turn
	}
	return max(turn, 2*time.Duration(w.Processes*w.Workers/max(w.Permits, 1))*w.Inside)
}

// exclusive says that the work can be checked: not everybody may be inside at once.
func (w Work) exclusive(kind string) bool { return w.One && !w.Shared && kind != "raw" }
