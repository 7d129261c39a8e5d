package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Spreader makes the daemon take part in a group of locks, one for each job.
// [SpreadOver] returns one.
type Spreader interface {
	// Join takes part until leave is called. handler gets what is this
	// daemon's, notify the events of the group. *lock.RequestError and
	// *group.NotParticipantError end the scheduler; after other errors it
	// tries again.
	Join(ctx context.Context, spec group.Spec, handler group.Handler,
		notify func(group.Notice)) (leave func(context.Context) error, err error)
}

// SpreadOver spreads jobs over the daemons that share the client's ZooKeeper
// and root. The name of this daemon has to be one that no other one has at the
// same time; one that comes back under its name soon keeps its jobs. Defaults to
// "host:pid".
func SpreadOver(client *lock.Client, name string) Spreader {
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return clientSpreader{client, name}
}

type clientSpreader struct {
	client *lock.Client
	name   string
}

func (c clientSpreader) Join(
	ctx context.Context, spec group.Spec, handler group.Handler, notify func(group.Notice),
) (func(context.Context) error, error) {
	group, err := group.New(c.client.Client, spec, group.Options{Notify: notify})
	if err != nil {
		return nil, err
	}
	member, err := group.Join(ctx, c.name, handler)
	if err != nil {
		return nil, err
	}
	return member.Leave, nil
}

const (
	spreadDebounce = time.Second      // daemons are started and restarted together
	spreadJoin     = 15 * time.Second // how long one try to join may take
	spreadLeave    = 5 * time.Second  // how long a daemon that stops waits until it has left
)

// spreadSpec declares the group of all jobs that have a schedule. Daemons with
// other jobs are in another group: none is then given a job that it does not
// have, and the ledger decides between the owners in both.
func (s *Scheduler) spreadSpec(defs map[string]*definition) group.Spec {
	spec := group.Spec{Strategy: s.cfg.SpreadStrategy, Debounce: spreadDebounce}
	for name, def := range defs {
		if def.schedule != Manual() {
			spec.Locks = append(spec.Locks, name)
		}
	}
	slices.Sort(spec.Locks)
	text, _ := json.Marshal(spec) // plain data
	sum := sha256.Sum256(text)
	spec.Name = "scheduler/" + hex.EncodeToString(sum[:6])
	return spec
}

// spread takes part until the drain begins, and anew whenever the jobs have
// changed. It goes on trying, unless trying is in vain: then it returns why.
func (s *Scheduler) spread() error {
	for pause := newPace(); !s.isDraining(); {
		spec := s.spreadSpec(s.definitions())
		log := s.log.With("group", spec.Name)
		if len(spec.Locks) == 0 {
			s.untilRespread()
			continue
		}
		ctx, cancel := context.WithTimeout(s.firing, spreadJoin)
		leave, err := s.cfg.Spread.Join(ctx, spec, owner{s}, func(n group.Notice) { s.logSpread(log, n) })
		cancel()
		if err != nil {
			if isPermanent(err) {
				return fmt.Errorf("scheduler: this daemon cannot take part in the spread of jobs: %w", err)
			}
			if !s.isDraining() {
				log.Warn("this daemon does not take part in the spread of jobs yet, and runs none at their times; trying again",
					"error", err)
				pause.wait(s.firing)
			}
			continue
		}
		pause = newPace()
		s.untilRespread()
		ctx, cancel = context.WithTimeout(context.Background(), spreadLeave)
		if err := leave(ctx); err != nil {
			log.Warn("the other daemons take over the jobs of this one later", "error", err)
		}
		cancel()
	}
	return nil
}

// untilRespread waits until the jobs have changed, or the drain begins.
func (s *Scheduler) untilRespread() {
	select {
	case <-s.firing.Done():
	case <-s.respread:
	}
}

// spreadAnew has the daemon take part with other jobs.
func (s *Scheduler) spreadAnew() {
	select {
	case s.respread <- struct{}{}:
	default:
	}
}

// isPermanent reports whether a group refuses this daemon as it is configured.
func isPermanent(err error) bool {
	_, refused := errors.AsType[*lock.RequestError](err)
	_, stranger := errors.AsType[*group.NotParticipantError](err)
	return refused || stranger
}

func (s *Scheduler) logSpread(log interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
}, n group.Notice,
) {
	switch n := n.(type) {
	case group.Controller:
		log.Info("this daemon decides which one owns which job", "decides", n.Gained)
	case group.RoundDone:
		log.Info("jobs are spread", "moved", n.Moves, "took", n.Took.Round(time.Millisecond))
	case group.StrategyFailed:
		log.Warn("jobs are not spread anew; they stay where they are", "strategy", n.Strategy, "error", n.Err)
	case group.Lost:
		log.Warn("this daemon owns no job any more until it is back", "error", n.Err)
	case group.Fault:
		log.Warn("this daemon cannot take part in the spread of jobs; trying again", "error", n.Err)
	}
}

// owner tells lanes what is theirs.
type owner struct{ s *Scheduler }

var _ group.Handler = owner{}

func (o owner) OnLocked(ctx context.Context, grant group.LockGrant) {
	if l := o.s.laneOf(grant.Lock); l != nil {
		l.own(ctx)
	}
}

func (o owner) OnReleased(_ context.Context, lock string) {
	o.s.log.Info("job is owned by this daemon no more; what runs goes on", "job", lock)
}

func (o owner) OnDropped(context.Context, string) {}

// own makes the job this daemon's as long as ctx lives.
func (l *lane) own(ctx context.Context) {
	l.mu.Lock()
	l.owned, l.buffer = ctx, true // the owner before may have left ticks that wait
	l.mu.Unlock()
	l.poke()
	l.s.log.Info("job is owned by this daemon", "job", l.definition().Name)
}

// mine reports whether ticks of the job are this daemon's to decide.
func (l *lane) mine() bool {
	if l.s.cfg.Spread == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned != nil && l.owned.Err() == nil
}

// shed leaves ticks to the owner of the job, but for the last ones: should the
// owner be gone, this daemon may have to decide them.
func (l *lane) shed(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.queue) - keep; n > 0 {
		l.queue = slices.Delete(l.queue, 0, n)
		l.stats.Taken += uint64(n)
	}
}

// spreadProblem says what is wrong with the declaration of the group of jobs.
func (s *Scheduler) spreadProblem(defs map[string]*definition) error {
	spec := s.spreadSpec(defs)
	if len(spec.Locks) == 0 {
		return nil
	}
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("scheduler: jobs cannot be spread: %w", err)
	}
	return nil
}

// definitions returns the jobs as they are now.
func (s *Scheduler) definitions() map[string]*definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	defs := make(map[string]*definition, len(s.lanes))
	for name, l := range s.lanes {
		defs[name] = l.definition()
	}
	return defs
}
