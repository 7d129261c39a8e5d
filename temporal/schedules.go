package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// ScheduleMemoKey is the key, in the memo of a schedule, that marks it as one of
// Schedules.
const ScheduleMemoKey = "lockkeeper_schedule"

// DefaultScheduleSet is the name of a set of schedules.
const DefaultScheduleSet = "lockkeeper"

// Orphans says what becomes of schedules whose jobs are gone.
type Orphans string

// What becomes of them.
const (
	OrphansPause  Orphans = "pause"  // they start nothing any more (default)
	OrphansDelete Orphans = "delete" // they are deleted
	OrphansKeep   Orphans = "keep"   // they go on
)

// A ScheduleClient is what Schedules need of a Temporal client; a client.Client is
// one.
type ScheduleClient interface {
	ScheduleClient() client.ScheduleClient
}

// SchedulesConfig says which schedules are kept. Client has to be set.
type SchedulesConfig struct {
	Client ScheduleClient

	// Logger gets a line for each change. Defaults to silence.
	Logger *slog.Logger

	// Orphans defaults to OrphansPause.
	Orphans Orphans

	// Paused says whether a job is paused, and by whom and why. Defaults to: none
	// is. A schedule that was paused in Temporal stays so.
	Paused func(job jobs.Job) (why string, paused bool)

	// Root is that of the locks, with the chroot: clusters that share a namespace
	// leave each other's schedules alone. Defaults to "".
	Root string

	// Set tells the schedules of one configuration from those of another one of the
	// same Root, which are no orphans of it. Defaults to DefaultScheduleSet.
	Set string
}

// Schedules keeps schedules on a Temporal server up to date with jobs. It is not
// safe for concurrent use; several processes may do the same at once.
type Schedules struct {
	cfg SchedulesConfig
	log *slog.Logger
}

// NewSchedules validates cfg.
func NewSchedules(cfg SchedulesConfig) (*Schedules, error) {
	if cfg.Client == nil {
		return nil, &lockguard.RequestError{Field: "temporal", Reason: "has no client; say where the Temporal server is"}
	}
	cfg.Set, cfg.Orphans = cmp.Or(cfg.Set, DefaultScheduleSet), cmp.Or(cfg.Orphans, OrphansPause)
	if !slices.Contains([]Orphans{OrphansPause, OrphansDelete, OrphansKeep}, cfg.Orphans) {
		return nil, &lockguard.RequestError{
			Field: "orphans", Reason: fmt.Sprintf("%q is unknown; write pause, delete or keep", cfg.Orphans),
		}
	}
	if cfg.Paused == nil {
		cfg.Paused = func(jobs.Job) (string, bool) { return "", false }
	}
	s := &Schedules{cfg: cfg, log: cfg.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// ScheduleChanges are the names of the jobs whose schedules Sync has changed.
type ScheduleChanges struct{ Created, Updated, Paused, Resumed, Orphaned []string }

// Any reports whether there are any.
func (c ScheduleChanges) Any() bool {
	return len(c.Created)+len(c.Updated)+len(c.Paused)+len(c.Resumed)+len(c.Orphaned) > 0
}

// Sync creates the schedules that are not there, updates those that differ, and does
// with orphans what Orphans says. What is as it should be is not touched. It goes on
// after an error, and returns all of them.
func (s *Schedules) Sync(ctx context.Context, all []Schedule) (ScheduleChanges, error) {
	var (
		changes  ScheduleChanges
		problems []error
	)
	wanted := make(map[string]bool, len(all))
	for _, schedule := range all {
		wanted[schedule.ID(s.cfg.Root)] = true
		if err := s.sync(ctx, schedule, &changes); err != nil {
			problems = append(problems, fmt.Errorf("schedule of job %q on the Temporal server: %w", schedule.Job.Name, err))
		}
	}
	if s.cfg.Orphans != OrphansKeep {
		problems = append(problems, s.orphans(ctx, wanted, &changes))
	}
	return changes, errors.Join(problems...)
}

// scheduleMark is in the memo of a schedule.
type scheduleMark struct {
	Job  string `json:"job"`
	Root string `json:"root"`
	Set  string `json:"set"`
}

func markIn(memo *commonpb.Memo) (mark scheduleMark, ok bool) {
	payload, ok := memo.GetFields()[ScheduleMemoKey]
	return mark, ok && converter.GetDefaultDataConverter().FromPayload(payload, &mark) == nil
}

// ourNote begins the notes of schedules that were paused by Sync.
const ourNote = "lockkeeper: "

func (s *Schedules) sync(ctx context.Context, schedule Schedule, changes *ScheduleChanges) error {
	id, name := schedule.ID(s.cfg.Root), schedule.Job.Name
	handle := s.cfg.Client.ScheduleClient().GetHandle(ctx, id)
	is, err := handle.Describe(ctx)
	if errors.As(err, new(*serviceerror.NotFound)) {
		created, err := s.create(ctx, id, schedule)
		if created {
			changes.Created = append(changes.Created, name)
			s.log.Info("schedule created on the Temporal server", "job", name, "schedule", id)
		}
		return err
	} else if err != nil {
		return err
	}
	mark, marked := markIn(is.Memo)
	switch {
	case !marked || mark.Root != s.cfg.Root:
		return fmt.Errorf(
			"there is one named %s already, which is not lockkeeper's; delete it, or give the job another name", id)
	case mark.Set != s.cfg.Set:
		return fmt.Errorf("%s belongs to the set %s, not to %s; give the job another name, or delete the schedule",
			id, mark.Set, s.cfg.Set)
	}
	should, err := fingerprint(schedule.spec(), schedule.policy(), schedule.action(s.cfg.Root))
	if err != nil {
		return err
	}
	if found, err := fingerprintOf(is.Schedule); err != nil || found != should {
		if err := s.update(ctx, handle, schedule); err != nil {
			return err
		}
		changes.Updated = append(changes.Updated, name)
		s.log.Info("schedule updated on the Temporal server", "job", name, "schedule", id)
	}
	return s.pause(ctx, handle, schedule.Job, is.Schedule.State, changes)
}

func (s *Schedules) create(ctx context.Context, id string, schedule Schedule) (bool, error) {
	why, paused := s.cfg.Paused(schedule.Job)
	policy := schedule.policy()
	options := client.ScheduleOptions{
		ID: id, Spec: schedule.spec(), Action: schedule.action(s.cfg.Root),
		Overlap: policy.Overlap, CatchupWindow: policy.CatchupWindow, PauseOnFailure: policy.PauseOnFailure,
		Memo: map[string]any{ScheduleMemoKey: scheduleMark{Job: schedule.Job.Name, Root: s.cfg.Root, Set: s.cfg.Set}},
	}
	if paused {
		options.Paused, options.Note = true, ourNote+why
	}
	_, err := s.cfg.Client.ScheduleClient().Create(ctx, options)
	if errors.Is(err, sdk.ErrScheduleAlreadyRunning) {
		return false, nil // another daemon has been faster
	}
	return err == nil, err
}

// update leaves alone whether it is paused: that may be intended.
func (s *Schedules) update(ctx context.Context, handle client.ScheduleHandle, schedule Schedule) error {
	return handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			policy, spec := schedule.policy(), schedule.spec()
			return &client.ScheduleUpdate{Schedule: &client.Schedule{
				Action: schedule.action(s.cfg.Root), Policy: &policy, Spec: &spec, State: in.Description.Schedule.State,
			}}, nil
		},
	})
}

// pause has the schedule paused while the job is.
func (s *Schedules) pause(
	ctx context.Context, handle client.ScheduleHandle, job jobs.Job, state *client.ScheduleState,
	changes *ScheduleChanges,
) error {
	why, paused := s.cfg.Paused(job)
	is, byUs := state != nil && state.Paused, state != nil && strings.HasPrefix(state.Note, ourNote)
	switch {
	case paused && !is:
		if err := handle.Pause(ctx, client.SchedulePauseOptions{Note: ourNote + why}); err != nil {
			return err
		}
		changes.Paused = append(changes.Paused, job.Name)
		s.log.Info("schedule paused on the Temporal server", "job", job.Name, "why", why)
	case !paused && is && byUs:
		if err := handle.Unpause(ctx, client.ScheduleUnpauseOptions{Note: ourNote + "it goes on"}); err != nil {
			return err
		}
		changes.Resumed = append(changes.Resumed, job.Name)
		s.log.Info("schedule resumed on the Temporal server", "job", job.Name)
	}
	return nil
}

// orphans finds the schedules whose jobs are gone.
func (s *Schedules) orphans(ctx context.Context, wanted map[string]bool, changes *ScheduleChanges) error {
	list, err := s.cfg.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	if err != nil {
		return fmt.Errorf("schedules of the Temporal server cannot be listed: %w", err)
	}
	var problems []error
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("schedules of the Temporal server cannot be listed: %w", err))...)
		}
		mark, ok := markIn(entry.Memo)
		if !ok || mark.Root != s.cfg.Root || mark.Set != s.cfg.Set || wanted[entry.ID] {
			continue
		}
		if done, err := s.orphan(ctx, entry.ID); err != nil {
			problems = append(problems, fmt.Errorf("schedule %s, whose job is gone: %w", entry.ID, err))
		} else if done {
			changes.Orphaned = append(changes.Orphaned, mark.Job)
			s.log.Warn("schedule on the Temporal server has no job any more",
				"job", mark.Job, "schedule", entry.ID, "now", string(s.cfg.Orphans)+"d")
		}
	}
	slices.Sort(changes.Orphaned)
	return errors.Join(problems...)
}

func (s *Schedules) orphan(ctx context.Context, id string) (done bool, err error) {
	handle := s.cfg.Client.ScheduleClient().GetHandle(ctx, id)
	if s.cfg.Orphans == OrphansDelete {
		err = handle.Delete(ctx)
		done = err == nil
	} else {
		var is *client.ScheduleDescription
		if is, err = handle.Describe(ctx); err == nil && !is.Schedule.State.Paused {
			err = handle.Pause(ctx, client.SchedulePauseOptions{Note: ourNote + "its job is in no configuration any more"})
			done = err == nil
		}
	}
	if errors.As(err, new(*serviceerror.NotFound)) {
		return false, nil // another daemon has been faster
	}
	return done, err
}
