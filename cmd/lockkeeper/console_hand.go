package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// consoleHand does what people ask for in the console, as the commands do it, with
// the credentials of the daemon.
type consoleHand struct {
	*operator
	log   *slog.Logger
	facts *consoleFacts

	always  context.Context // a preemption goes on when who asked for it has gone
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newConsoleHand(
	client *lock.Client, cfg *config.Config, facts *consoleFacts, logger *slog.Logger,
) (*consoleHand, error) {
	o, err := newOperator(client, cfg)
	if err != nil {
		return nil, err
	}
	h := &consoleHand{operator: o, log: logger, facts: facts}
	h.always, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// end withdraws what goes on; h may be nil.
func (h *consoleHand) end() {
	if h != nil {
		h.stop()
		h.running.Wait()
	}
}

func (h *consoleHand) Apply(ctx context.Context, o override.Override) (console.Done, error) {
	if err := h.client.CheckOperator(ctx, fmt.Sprintf("override %q not applied", o.ID)); err != nil {
		return console.Done{}, err
	}
	now, err := h.client.Time(ctx)
	if err != nil {
		return console.Done{}, err
	}
	limits := override.Limits{}
	if cfg := h.facts.config(); cfg != nil {
		limits = cfg.Emergency.Limits(now)
	}
	limits.Now = now
	if err := o.Validate(limits); err != nil {
		return console.Done{}, err
	}
	_, acts, err := h.operator.Apply(ctx, []override.Override{o})
	if err != nil {
		return console.Done{Act: acts[0]}, err
	}
	return console.Done{
		Text: fmt.Sprintf("%s is in force until %s.", o.ID, o.Until.UTC().Format("2006-01-02 15:04:05 UTC")), Act: acts[0],
	}, nil
}

func (h *consoleHand) Break(ctx context.Context, scope string, token lock.Token, by console.By) (console.Done, error) {
	if err := h.client.CheckOperator(ctx, fmt.Sprintf("lock %q not broken", scope)); err != nil {
		return console.Done{}, err
	}
	broken, err := h.operator.Break(ctx, scope, token, emergency.By(by))
	if broken.Act == "" {
		return console.Done{Act: broken.Begun}, err
	}
	if err != nil { // it is done all the same
		h.log.Error("what has become of an act is not on record", "act", broken.Act, "error", err)
	}
	return console.Done{Text: fmt.Sprintf("The lock of %s is broken; %s.",
		broken.Victim.Owner, afterWords(broken.After, true)), Act: broken.Act}, nil
}

func (h *consoleHand) Clear(ctx context.Context, id string, by console.By) (console.Done, error) {
	if err := h.client.CheckOperator(ctx, fmt.Sprintf("override %q not cleared", id)); err != nil {
		return console.Done{}, err
	}
	was, act, err := h.operator.Clear(ctx, id, emergency.By(by))
	if err != nil {
		return console.Done{Act: act}, err
	}
	return console.Done{Text: fmt.Sprintf("%s is cleared; it was %s.", id, was), Act: act}, nil
}

func (h *consoleHand) Concerns(ctx context.Context, o override.Override) (int, error) {
	around, err := lookAround(ctx, h.client, []override.Override{o})
	if err != nil {
		return 0, err
	}
	return len(around.concerns([]override.Override{o}, h.facts.config())[0]), nil
}

func (h *consoleHand) Decide(ctx context.Context, id string, d opstore.Decision) (console.Done, error) {
	if err := h.client.CheckOperator(ctx, fmt.Sprintf("approval %q not decided", id)); err != nil &&
		!trustsTemporal(h.facts.config(), id) {
		return console.Done{}, err
	}
	var (
		act string
		err error
	)
	if temporal.IsApprovalID(id) && h.facts.workflows != nil {
		_, act, err = h.decideIn(ctx, h.facts.workflows, id, d)
	} else {
		_, act, err = h.operator.Decide(ctx, id, d)
	}
	if err != nil {
		return console.Done{Act: act}, err
	}
	return console.Done{Text: fmt.Sprintf("%s is %s.", id, d.Word()), Act: act}, nil
}

func (h *consoleHand) Pause(ctx context.Context, job string, until time.Time, by console.By) (console.Done, error) {
	if err := h.facts.known(ctx, job); err != nil {
		return console.Done{}, err
	}
	_, act, err := h.operator.Pause(ctx, job, until, emergency.By(by))
	if err != nil {
		return console.Done{Act: act}, err
	}
	text := job + " is paused until somebody resumes it."
	if !until.IsZero() {
		text = fmt.Sprintf("%s is paused until %s.", job, until.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return console.Done{Text: text, Act: act}, nil
}

func (h *consoleHand) Preempt(ctx context.Context, p console.Preemption) (console.Done, error) {
	what := fmt.Sprintf("lock %q not preempted", p.Scope)
	if err := h.client.CheckOperator(ctx, what); err != nil {
		return console.Done{}, err
	}
	state, err := h.client.Lock(ctx, p.Scope)
	if err != nil {
		return console.Done{}, err
	}
	// A holder is asked while the caller waits for that, or not at all. It is waited
	// for when the caller has gone.
	type answer struct {
		act string
		err error
	}
	answers := make(chan answer, 2) // the first one counts
	working, cancel := context.WithCancelCause(h.always)
	callerWaits := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	wanted := emergency.Preemption{
		Scope: p.Scope, By: emergency.By(p.By), Token: p.Token, Force: p.Force, Grace: p.Grace,
		Asked: func(act string) {
			if !callerWaits() {
				cancel(context.Cause(ctx))
				return
			}
			answers <- answer{act: act}
		},
	}
	h.running.Go(func() {
		defer cancel(nil)
		done, err := h.operator.Preempt(working, wanted, state, wanted.NewMark())
		if err != nil {
			h.log.Warn("a preemption that was asked for in the console has failed",
				"scope", p.Scope, "by", p.By.Name, "act", done.Act, "error", err)
		} else {
			h.log.Info("a preemption that was asked for in the console has ended",
				"scope", p.Scope, "by", p.By.Name, "act", done.Act, "outcome", done.Outcome)
		}
		answers <- answer{err: err}
	})
	switch first := <-answers; {
	case first.err != nil:
		return console.Done{}, fmt.Errorf("no holder was preempted: %w", first.err)
	case first.act == "":
		return console.Done{Text: "The lock has no holder; there was nothing to do."}, nil
	default:
		text := fmt.Sprintf("%s is preempted; after %s the request is withdrawn.",
			owners(state.Holders), human(emergency.Politeness))
		if p.Force {
			text = fmt.Sprintf("%s is preempted; the lock is taken when the time to clean up is over.", owners(state.Holders))
		}
		return console.Done{Text: text, Act: first.act}, nil
	}
}

func (h *consoleHand) Resume(ctx context.Context, job string, by console.By) (console.Done, error) {
	if err := h.facts.known(ctx, job); err != nil {
		return console.Done{}, err
	}
	was, act, err := h.operator.Resume(ctx, job, emergency.By(by))
	switch {
	case err != nil:
		return console.Done{Act: act}, err
	case was == nil:
		return console.Done{Text: job + " was not paused.", Act: act}, nil
	}
	return console.Done{Text: job + " runs again from its next tick on.", Act: act}, nil
}

func (h *consoleHand) Run(ctx context.Context, job string, by console.By) (console.Done, error) {
	if err := h.facts.known(ctx, job); err != nil {
		return console.Done{}, err
	}
	run, act, err := h.operator.Run(ctx, job, defaultWithin, emergency.By(by))
	if err != nil {
		return console.Done{Act: act}, err
	}
	return console.Done{Text: fmt.Sprintf("A daemon has taken the request: %s runs, run %s.", job, run), Act: act}, nil
}
