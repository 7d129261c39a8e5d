package zktest

import (
	"errors"
	"fmt"
	"time"
)

// ensembleOptions are the options of StartEnsemble alone.
type ensembleOptions struct {
	given     string // one that was given; "": none
	voters    int
	observers int
	syncLimit int
	election  time.Duration
	delay     time.Duration
	phases    []time.Duration
	drift     float64
	number    int // of this member
}

func ensembleOption(name string, set func(*ensembleOptions) error) Option {
	return func(o *options) error {
		o.ensemble.given = name
		return set(&o.ensemble)
	}
}

// Members is the number of voting members of an ensemble, from 1 to 9.
// Defaults to 3.
func Members(n int) Option {
	return ensembleOption("Members", func(o *ensembleOptions) error {
		if n < 1 || n > maxMembers {
			return fmt.Errorf("%d members: 1 to %d are possible", n, maxMembers)
		}
		o.voters = n
		return nil
	})
}

const maxMembers = 9

// Observers is the number of observers of an ensemble, from 0 to 9. They come
// after the voting members. Defaults to 0.
func Observers(n int) Option {
	return ensembleOption("Observers", func(o *ensembleOptions) error {
		if n < 0 || n > maxMembers {
			return fmt.Errorf("%d observers: 0 to %d are possible", n, maxMembers)
		}
		o.observers = n
		return nil
	})
}

// SyncLimit is ZooKeeper's syncLimit, in ticks: a member and its leader that
// have not heard from each other for longer part. Defaults to 5.
func SyncLimit(ticks int) Option {
	return ensembleOption("SyncLimit", func(o *ensembleOptions) error {
		if ticks < 1 {
			return fmt.Errorf("sync limit of %d ticks: at least 1 is possible", ticks)
		}
		o.syncLimit = ticks
		return nil
	})
}

// ElectionTime is how long a majority of members without a leader takes until
// the new leader serves, and how long a member takes to join a leader that is
// there. Defaults to 200ms; 0 is possible.
func ElectionTime(d time.Duration) Option {
	return ensembleOption("ElectionTime", func(o *ensembleOptions) error {
		if d < 0 {
			return fmt.Errorf("election time %s is negative", d)
		}
		o.election = d
		return nil
	})
}

// LinkDelay is how long each packet between two members takes, in both
// directions. Defaults to 0. See Ensemble.SetDelay.
func LinkDelay(d time.Duration) Option {
	return ensembleOption("LinkDelay", func(o *ensembleOptions) error {
		if d < 0 {
			return fmt.Errorf("link delay %s is negative", d)
		}
		o.delay = d
		return nil
	})
}

// ClockPhases says where the members are within a tick when the ensemble
// starts: sessions expire at whole ticks of the clock of the leader, pings go
// by the instant at which it became the leader. Whole milliseconds; the last
// one is for all further members. Defaults to 0.
func ClockPhases(phases ...time.Duration) Option {
	return ensembleOption("ClockPhases", func(o *ensembleOptions) error {
		for _, d := range phases {
			if d < 0 || d%time.Millisecond != 0 {
				return fmt.Errorf("clock phase %s: whole milliseconds from 0 are possible", d)
			}
		}
		o.phases = phases
		return nil
	})
}

// TimeoutDrift makes the leader's clock fast: it expires a session after
// (1-share) of its timeout, rounded up to a tick. 0.01 is one percent.
func TimeoutDrift(share float64) Option {
	return ensembleOption("TimeoutDrift", func(o *ensembleOptions) error {
		if share < 0 || share >= 1 {
			return fmt.Errorf("timeout drift %g: from 0 to below 1 is possible", share)
		}
		o.drift = share
		return nil
	})
}

// checkEnsemble refuses what only a standalone server can do.
func (o *options) checkEnsemble() error {
	var errs []error
	if o.frozen {
		errs = append(errs, errors.New("an ensemble has no FrozenClock"))
	}
	if o.dataDir != "" {
		errs = append(errs, errors.New("an ensemble has no DataDir"))
	}
	return errors.Join(errs...)
}

func (o *ensembleOptions) phase(member int) time.Duration {
	if len(o.phases) == 0 {
		return 0
	}
	return o.phases[min(member, len(o.phases)-1)]
}
