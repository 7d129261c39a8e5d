package nightly

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// A narrator tells what happens in one daemon: it observes the events of the
// guard, adds what the jobs have to say, and hands steps on.
type narrator struct {
	daemon string
	hand   func(step)

	mu     sync.Mutex
	said   map[string]string // by job, until its next step that ends something
	failed map[string]error  // by job, likewise
}

func newNarrator(daemon string, hand func(step)) *narrator {
	return &narrator{daemon: daemon, hand: hand, said: make(map[string]string), failed: make(map[string]error)}
}

// say keeps what a job has done for the step in which that ends.
func (n *narrator) say(job, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said[job] = text
}

// fail keeps why the work of a job has failed.
func (n *narrator) fail(job string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed[job] = err
}

// tell hands a step on.
func (n *narrator) tell(s step) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Daemon = n.daemon
	if s.Kind == cleaned || s.Kind == done {
		if said := n.said[s.Job]; said != "" {
			s.Text = said + ", " + s.Text
		}
		delete(n.said, s.Job)
	}
	n.hand(s)
}

// observe is a lockguard.Observer.
func (n *narrator) observe(_ context.Context, event lockguard.Event) {
	about := event.Subject
	s := step{At: about.At, Job: about.Owner, Run: about.ID}
	switch e := event.Notice.(type) {
	case lock.Queued:
		s.Kind, s.Text = waiting, "for "+names(e.Holders)
	case lock.TakenOver:
		s.Kind, s.Text = tookOver, "from "+names(e.From)+", whose time was over"
	case lockguard.Acquired:
		s.Kind, s.Text = holding, "token "+about.Token.String()
		if e.Waited > 50*time.Millisecond {
			s.Text += ", after " + seconds(e.Waited)
		}
	case lock.PreemptRequested:
		s.Kind, s.Text = preempted,
			fmt.Sprintf("by %s (priority %d), %s to clean up", e.By.Owner, e.By.Priority, seconds(e.Grace))
		if o := e.Override; o != nil {
			s.Text = fmt.Sprintf("by %s (override %s), %s to clean up", o.By, o.ID, seconds(e.Grace))
		}
	case lockguard.Frozen:
		s.Kind, s.Text = frozen,
			"until "+e.Override.Until.Local().Format(time.TimeOnly)+" by "+e.Override.By+" (override "+e.Override.ID+")"
	case lockguard.Thawed:
		s.Kind, s.Text = thawed, "asks for the lock again"
	case lockguard.Overridden:
		s.Kind, s.Text = overridden, overruled(e.Effect)
	case lockguard.CleanupStarted:
		s.Kind = cleaning
	case lockguard.CleanupDone:
		s.Kind, s.Text = cleaned, "took "+seconds(e.Took)
		if e.Err != nil {
			s.Kind, s.Text = unclean, oneLine(e.Err)
		}
	case lockguard.Released:
		s.Kind, s.Text = n.release(about.Owner, e)
	case lockguard.NotAcquired:
		s.Kind, s.Text = gaveUp, oneLine(e.Err)
		if errors.Is(e.Err, lockguard.ErrShutdown) {
			s.Kind, s.Text = left, "the queue: the daemon ends"
		}
	case lockguard.Lost:
		s.Kind, s.Text = lost, oneLine(e.Err)
	case lockguard.Skipped:
		s.Job, s.Kind = e.Job, skipped
		s.Text = "its tick of " + e.Instant.Local().Format(time.TimeOnly)
		if s.Overlap = e.Reason == string(scheduler.SkipOverlap); !s.Overlap {
			s.Text += ": " + why(e.Reason)
		}
	default:
		return // the timeline can do without
	}
	n.tell(s)
}

// release says how a hold has ended.
func (n *narrator) release(job string, e lockguard.Released) (kind, string) {
	n.mu.Lock()
	failure := n.failed[job]
	delete(n.failed, job)
	n.mu.Unlock()

	held := "held for " + seconds(e.Held)
	if e.Err != nil {
		held = "release not confirmed"
	}
	switch {
	case priority.PreemptionOf(e.Cause).Kind != "":
		if e.Err != nil {
			return stopped, held
		}
		return handedOver, held // to whom, is seen when that one has it
	case errors.Is(e.Cause, lockguard.ErrShutdown):
		return stopped, "the daemon ends, " + held
	case e.Cause != nil:
		return stopped, oneLine(e.Cause)
	case failure != nil:
		return failed, oneLine(failure)
	}
	return done, held
}

// overruled says what overrides have made of a request.
func overruled(e override.Effect) string {
	o := e.By()
	if o == nil {
		return "as declared again"
	}
	level := fmt.Sprint(e.Terms.Priority)
	if e.Terms.Priority == priority.Emergency {
		level = "emergency"
	}
	return fmt.Sprintf("by %s (override %s): priority %s", o.By, o.ID, level)
}

func names(contenders []lock.Contender) string {
	if len(contenders) == 0 {
		return "its turn"
	}
	owners := make([]string, len(contenders))
	for i, c := range contenders {
		owners[i] = c.Owner
	}
	return strings.Join(owners, ", ")
}

// why says why a tick was skipped.
func why(reason string) string {
	switch scheduler.SkipReason(reason) {
	case scheduler.SkipLock:
		return "no lock in time"
	case scheduler.SkipDraining:
		return "the daemon ends"
	case scheduler.SkipPaused:
		return "it is paused"
	case scheduler.SkipUndecided, scheduler.SkipUnavailable:
		return "ZooKeeper is silent"
	default:
		return reason
	}
}

// seconds writes a duration for people: 0.4s, 5s.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
