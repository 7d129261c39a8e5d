package robust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A run is one after the other: servers, clients, faults, drain, verdict.
type run struct {
	options Options
	nemesis *nemesis.Nemesis
	crew    *crew
	bird    *canary
	reader  *history.Reader
}

// Run makes faults for as long as the options say, lets everything end, and
// judges. The error says what kept it from doing so.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	o = o.withDefaults()
	r := &run{options: o, reader: history.NewReader(o.Dir), crew: newCrew(o)}
	r.nemesis, err = nemesis.New(ctx, nemesis.Options{
		Seed: o.Seed, Clients: o.names(), Session: o.Session, Tick: o.Tick, Kinds: o.Kinds, Lanes: o.Lanes, Rest: o.Rest,
		Now: history.Now, Processes: r.crew, Observe: func(f nemesis.Fault) { o.Log("%s", f) },
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.nemesis.Close()) }()
	defer func() { // in case of an error
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		r.crew.drain(gone)
	}()
	if err := r.crew.start(r.nemesis.Connect); err != nil {
		return nil, err
	}
	r.bird, err = newCanary(r.nemesis.Direct(), o.noise()/2)
	if err != nil {
		return nil, err
	}
	defer r.bird.close()
	began := history.Now()
	seen, err := r.blow(ctx)
	if err != nil {
		return nil, err
	}
	healed := history.Now()
	o.Log("all faults are healed")
	calm, cancel := context.WithTimeout(ctx, o.Drain)
	defer cancel()
	late := r.crew.drain(calm)
	report = &Report{
		Seeds: []uint64{o.Seed}, Clients: o.Clients, Margin: o.Margin, Noise: o.noise(), Duration: healed - began,
		Drained: history.Now() - healed, Runs: 1, Faults: r.nemesis.Faults(), Absent: r.nemesis.Unavailable(),
		Notes: r.nemesis.Notes(),
	}
	if err := r.judge(ctx, report, late, seen); err != nil {
		return nil, err
	}
	return report, nil
}

// judge puts into the report what the history shows, and the logs of the servers. late are
// clients that had not ended in time, seen the violations that the run was ended for.
func (r *run) judge(ctx context.Context, report *Report, late []string, seen []verdict.Violation) error {
	for _, client := range late {
		report.Violations = append(report.Violations, verdict.Violation{
			Check: verdict.CheckEnd, Text: fmt.Sprintf(
				"client %s has not ended what it had begun %s after the last fault was healed", client, r.options.Drain),
		})
	}
	for _, text := range r.crew.troubles {
		report.Violations = append(report.Violations, verdict.Violation{Check: verdict.CheckProcess, Text: text})
	}
	events, err := r.events(history.Now())
	if err != nil {
		return err
	}
	for _, client := range r.reader.Torn() {
		if !r.crew.wasKilled(client) && !slices.Contains(late, client) {
			return fmt.Errorf("robust: the history of %s ends in the middle of a line, and the suite had not killed it", client)
		}
	}
	v := verdict.Judge(events, r.settings())
	if len(v.Violations) == 0 { // else what is left behind follows from them
		report.Violations = append(report.Violations, r.residue(ctx)...)
	}
	report.Lapses = r.bird.close()
	for _, server := range r.nemesis.Ensemble().Servers() {
		log, err := server.Log()
		if err != nil {
			return err
		}
		report.Differ = append(report.Differ, disagreements(log)...)
	}
	for _, s := range r.bird.slowness() {
		report.Slow += s.to - s.from
	}
	report.take(v, events)
	if all := slices.Concat(report.Violations, report.Undermined); r.options.Evidence != "" && len(all) > 0 {
		if err := keepEvidence(r.options.Evidence, all, events, r.options.Dir, r.nemesis.Ensemble()); err != nil {
			return err
		}
		r.options.Log("what shows the violations is in %s", r.options.Evidence)
	}
	for _, s := range seen {
		if !slices.ContainsFunc(slices.Concat(report.Violations, report.Undermined), s.Same) {
			r.options.Log("taken back: %s", s)
		}
	}
	return nil
}

// blow makes faults until the time is over or a violation is seen.
func (r *run) blow(ctx context.Context) ([]verdict.Violation, error) {
	blowing, cancel := context.WithTimeout(ctx, r.options.Duration)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.strike(blowing) }()
	var peek <-chan time.Time
	if r.options.Peek > 0 {
		ticker := time.NewTicker(r.options.Peek)
		defer ticker.Stop()
		peek = ticker.C
	}
	var suspected []verdict.Violation
	for {
		select {
		case err := <-done:
			return nil, err
		case <-peek:
			events, err := r.events(history.Now() - 3*time.Second)
			if err != nil {
				return nil, err
			}
			v := verdict.Judge(events, r.settings())
			sure := slices.DeleteFunc(slices.Clone(v.Violations), func(v verdict.Violation) bool {
				return !slices.ContainsFunc(suspected, v.Same)
			})
			if len(sure) > 0 {
				cancel()
				return sure, <-done
			}
			suspected = v.Violations // what comes later may explain it
		}
	}
}

// strike plays the fixed list of faults, or draws them.
func (r *run) strike(ctx context.Context) error {
	if len(r.options.Steps) == 0 {
		return r.nemesis.Run(ctx)
	}
	for _, step := range r.options.Steps {
		if err := r.nemesis.Play(ctx, step); err != nil {
			r.options.Log("%v", err) // what could not be done; Heal reports what could not be healed
		}
	}
	return r.nemesis.Heal(context.WithoutCancel(ctx))
}

func (r *run) settings() verdict.Settings {
	return verdict.Settings{
		Window: r.options.Session, Margin: r.options.Margin, Noise: r.options.noise(), Patience: 30 * time.Second,
	}
}

// events returns the history up to now, with what the suite knows.
func (r *run) events(until time.Duration) ([]history.Event, error) {
	own := r.crew.told(until)
	events, err := r.reader.Events()
	if err != nil {
		return nil, err
	}
	for _, f := range r.nemesis.Faults() {
		ended := min(until, cmp.Or(f.Ended, until))
		if f.OfServers() {
			own = append(own, history.Event{At: ended, Kind: history.Faulty, From: f.Began})
		}
		for _, name := range f.Clients {
			if f.Kind == nemesis.ClientClock {
				break // which changes nothing
			}
			for _, client := range r.crew.clients(name) {
				own = append(own, history.Event{At: ended, Kind: history.Faulty, Client: client, From: f.Began})
			}
		}
		switch f.Kind {
		case nemesis.ServerClock:
			own = append(own, history.Event{At: ended, Kind: history.Skewed, From: f.Began})
			continue
		case nemesis.SessionExpire, nemesis.SessionsExpire:
		default:
			continue
		}
		for _, name := range f.Clients {
			for _, client := range r.crew.clients(name) {
				own = append(own, history.Event{At: ended, Kind: history.Expired, Client: client, From: f.Began})
			}
		}
	}
	for _, name := range r.options.names() {
		for _, s := range r.nemesis.Silences(name) {
			for _, client := range r.crew.clients(name) {
				own = append(own, history.Event{At: min(s.To, until), Kind: history.Silent, Client: client, From: s.From})
			}
		}
	}
	for _, s := range r.bird.slowness() {
		own = append(own, history.Event{At: min(s.to, until), Kind: history.Slow, From: s.from})
	}
	events = append(events, own...)
	history.Sort(events)
	return slices.DeleteFunc(events, func(e history.Event) bool { return e.At > until }), nil
}

// residue checks that nothing is left: there are no holders and no waiters, and
// each lock can be acquired.
func (r *run) residue(ctx context.Context) (found []verdict.Violation) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Drain)
	defer cancel()
	fail := func(scope, format string, args ...any) {
		found = append(found, verdict.Violation{Check: verdict.CheckEnd, Scope: scope, Text: fmt.Sprintf(format, args...)})
	}
	servers, _, err := lock.ParseServers(r.nemesis.Direct())
	if err != nil {
		fail("", "%v", err)
		return found
	}
	client, err := lock.NewClient(lock.Config{Servers: servers})
	if err != nil {
		fail("", "%v", err)
		return found
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	// The sessions of the killed end by themselves.
	var busy []lock.State
	for ctx.Err() == nil {
		locks, _, err := client.Locks(ctx)
		if err != nil {
			continue
		}
		busy = slices.DeleteFunc(slices.Clone(locks), func(l lock.State) bool {
			return len(l.Holders)+len(l.Waiters)+len(l.Foreign) == 0
		})
		if len(busy) > 0 {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		for _, l := range locks {
			if err := takeOnce(ctx, client, l.Scope); err != nil {
				fail(l.Scope, "the lock cannot be had when all is over: %v", err)
			}
		}
		return found
	}
	if len(busy) == 0 {
		fail("", "ZooKeeper did not answer for %s after all faults were healed", r.options.Drain)
	}
	for _, l := range busy {
		fail(l.Scope,
			"left behind when all is over: holders %v, waiters %v, foreign %v", owners(l.Holders), owners(l.Waiters), l.Foreign)
	}
	return found
}

func takeOnce(ctx context.Context, client *lock.Client, scope string) error {
	l, err := client.PriorityLock(scope)
	if err != nil {
		return err
	}
	grant, err := l.Acquire(ctx,
		lock.Request{Terms: priority.Terms{Mode: priority.Exclusive, AcquireTimeout: new(30 * time.Second)}})
	if err != nil {
		return err
	}
	return grant.Release(ctx)
}

func owners(all []lock.Contender) (names []string) {
	for _, c := range all {
		names = append(names, c.Owner)
	}
	return names
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
