package deadlines

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// Fault is what happens to the servers. Afterwards a holder reaches no server, or only the one that it is
// connected to.
type Fault string

// The faults. Their holders are connected to the server that is named first.
const (
	FollowerKilled Fault = "follower-killed" // SIGKILL
	// packets between it and the other servers are dropped; its clients keep it
	FollowerCutOff  Fault = "follower-cutoff"
	FollowerStopped Fault = "follower-stopped" // SIGSTOP until all waiters are granted
	ObserverKilled  Fault = "observer-killed"  // SIGKILL
	LeaderKilled    Fault = "leader-killed"    // SIGKILL
	// FollowerAndLeaderKilled needs five voters.
	FollowerAndLeaderKilled Fault = "follower-and-leader-killed" // SIGKILL of both at once
	// LeaderDeposed drops the packets between the leader and a majority, in both directions. Of five voters one follower
	// stays with the leader, and has half of the holders.
	LeaderDeposed Fault = "leader-deposed"
	// LeaderDeposedFast is LeaderDeposed, and the servers of the majority are killed and started again at once:
	// they elect a new leader before the old one can miss them.
	LeaderDeposedFast Fault = "leader-deposed-fast"
)

// Faults returns all faults that an ensemble of that size can have.
func Faults(s Setup) []Fault {
	all := []Fault{FollowerKilled, FollowerCutOff, FollowerStopped}
	if s.Observers > 0 {
		all = append(all, ObserverKilled)
	}
	all = append(all, LeaderKilled)
	if s.Voters >= 5 {
		all = append(all, FollowerAndLeaderKilled)
	}
	return append(all, LeaderDeposed, LeaderDeposedFast)
}

// target is the servers that a fault concerns.
type target struct {
	fault  Fault
	holds  []*zkserver.Server // those that the holders are connected to
	others []*zkserver.Server // those that the waiters are connected to
	killed []*zkserver.Server
	links  []zkserver.PeerLink
}

func newTarget(ctx context.Context, e *zkserver.Ensemble, f Fault) (*target, error) {
	leader, err := e.Leader(ctx)
	if err != nil {
		return nil, err
	}
	followers, err := e.Followers(ctx)
	if err != nil {
		return nil, err
	}
	observers, err := e.Observers(ctx)
	if err != nil {
		return nil, err
	}
	s := &target{fault: f}
	if s.holds, err = heldBy(f, leader, followers, observers); err != nil {
		return nil, err
	}
	for _, server := range append(slices.Clone(followers), leader) {
		if !slices.Contains(s.holds, server) && (f != FollowerAndLeaderKilled || server != leader) {
			s.others = append(s.others, server)
		}
	}
	switch f {
	case FollowerKilled, ObserverKilled, LeaderKilled:
		s.killed = s.holds
	case FollowerAndLeaderKilled:
		s.killed = append(slices.Clone(s.holds), leader)
	case LeaderDeposedFast:
		s.killed = s.others
	case FollowerCutOff, FollowerStopped, LeaderDeposed:
	}
	for _, l := range e.PeerLinks(nil) {
		if slices.Contains(s.holds, l.From) != slices.Contains(s.holds, l.To) {
			s.links = append(s.links, l)
		}
	}
	return s, nil
}

// heldBy returns the servers that the holders are connected to.
func heldBy(f Fault, leader *zkserver.Server, followers, observers []*zkserver.Server) ([]*zkserver.Server, error) {
	switch f {
	case FollowerKilled, FollowerCutOff, FollowerStopped, FollowerAndLeaderKilled:
		return followers[:1], nil
	case ObserverKilled:
		if len(observers) == 0 {
			return nil, fmt.Errorf("%s: the ensemble has no observer", f)
		}
		return observers[:1], nil
	case LeaderKilled:
		return []*zkserver.Server{leader}, nil
	case LeaderDeposed, LeaderDeposedFast:
		// As many as can be without a majority.
		return append([]*zkserver.Server{leader}, followers[:(len(followers)+1)/2-1]...), nil
	default:
		return nil, fmt.Errorf("no fault is called %q", string(f))
	}
}

// inject begins the fault.
func (s *target) inject(ctx context.Context) error {
	switch s.fault {
	case FollowerStopped:
		return zkserver.Each(s.holds, (*zkserver.Server).Pause)
	case FollowerCutOff, LeaderDeposed:
		return s.part()
	case LeaderDeposedFast:
		return errors.Join(s.part(), zkserver.Each(s.killed, (*zkserver.Server).Kill),
			zkserver.Each(s.killed, (*zkserver.Server).Launch))
	case FollowerKilled, ObserverKilled, LeaderKilled, FollowerAndLeaderKilled:
		return zkserver.Each(s.killed, (*zkserver.Server).Kill)
	default:
		return fmt.Errorf("no fault is called %q", string(s.fault))
	}
}

func (s *target) part() error {
	return zkserver.Each(s.links, func(l zkserver.PeerLink) error { return l.Blackhole() })
}

// heal ends the fault, and returns when all servers take part in a quorum.
func (s *target) heal(ctx context.Context, e *zkserver.Ensemble) error {
	errs := []error{zkserver.Each(s.links, func(l zkserver.PeerLink) error { return l.Pass() })}
	if s.fault == FollowerStopped {
		errs = append(errs, zkserver.Each(s.holds, (*zkserver.Server).Resume))
	}
	return errors.Join(append(errs, e.Restart(ctx), e.WaitCommitting(ctx))...)
}
