package throughput

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Options say what is measured.
type Options struct {
	// Client says how to reach ZooKeeper.
	Client lock.Config

	// Clients are how many sessions work at a time, one measurement after the
	// other. Defaults to 1, 8 and 32.
	Clients []int

	// For is how long is measured, all measures together. Defaults to 10s.
	For time.Duration
}

// The defaults of Options, and the most sessions that are opened.
const (
	DefaultFor  = 10 * time.Second
	MostClients = 256
)

// DefaultClients returns the default of Options.Clients.
func DefaultClients() []int { return []int{1, 8, 32} }

// The measures.
const (
	Raw        = "create+delete" // a node is created and deleted: what any lock has to write
	Own        = "own lock"      // every client has a lock of its own: acquire, release
	Handover   = "hand-over"     // all clients want one lock
	Preemption = "preemption"    // an important request meets a holder in another session
)

// A Row is the outcome of one measure.
type Row struct {
	Measure   string
	Clients   int
	Cycles    int
	PerSecond float64 // cycles, of all clients together
	OfRaw     float64 // relative to Raw with as many clients; 0: does not compare
	Steps     []Step
}

// A Step is a part of a cycle.
type Step struct {
	Name     string
	P50, P99 time.Duration
}

// Result is what was measured.
type Result struct {
	Rows []Row
	Took time.Duration
}

// settling bounds what is done before and after.
const settling = 30 * time.Second

// Measure measures. It loads the ensemble as much as it can bear, for as long as
// the options say and a moment before and after. When ctx ends first it cleans
// up and returns the cause. The errors are those of recipes/lock.
func Measure(ctx context.Context, o Options) (result Result, err error) {
	began := time.Now()
	if err := o.complete(); err != nil {
		return result, err
	}
	m := &meter{}
	defer func() {
		// What was opened is closed, also when the caller has gone.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		defer cancel()
		err = errors.Join(err, m.clear(after))
		result.Took = time.Since(began)
	}()
	before, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	if err := m.open(before, o); err != nil {
		return result, fmt.Errorf("throughput not measured: %w", err)
	}
	result.Rows, err = m.run(ctx, o)
	if err != nil {
		err = fmt.Errorf("throughput not measured: %w", err)
	}
	return result, err
}

func (o *Options) complete() error {
	if len(o.Clients) == 0 {
		o.Clients = DefaultClients()
	}
	if o.For == 0 {
		o.For = DefaultFor
	}
	o.Client.Logger = slog.New(slog.DiscardHandler)
	var problems []error
	refuse := func(field, reason string) {
		problems = append(problems, &lock.RequestError{Field: field, Reason: reason})
	}
	o.Clients = slices.Compact(slices.Sorted(slices.Values(o.Clients)))
	if o.Clients[0] < 1 || o.Clients[len(o.Clients)-1] > MostClients {
		refuse("clients", fmt.Sprintf("%v is out of range; write numbers from 1 to %d", o.Clients, MostClients))
	}
	if o.For < 0 {
		refuse("for", fmt.Sprintf("%s is negative; write for example 10s", o.For))
	}
	return errors.Join(problems...)
}

// A meter has the sessions.
type meter struct {
	clients []*lock.Client
	probes  []*zkclient.Probe
}

// open opens as many sessions as are needed at a time, two at least.
func (m *meter) open(ctx context.Context, o Options) error {
	cfg, err := o.Client.Scratch()
	if err != nil {
		return err
	}
	for range max(2, o.Clients[len(o.Clients)-1]) {
		c, err := lock.NewClient(cfg)
		if err != nil {
			return err
		}
		m.clients = append(m.clients, c)
	}
	for i, c := range m.clients {
		if err := c.Ready(ctx); err != nil {
			return err
		}
		// The first lock makes the root.
		if err := cycle(ctx, c, ownScope(i), nil); err != nil {
			return err
		}
		probe, err := c.Probe(ctx)
		if err != nil {
			return err
		}
		m.probes = append(m.probes, probe)
	}
	return nil
}

// clear removes what was made, and ends the sessions.
func (m *meter) clear(ctx context.Context) error {
	var errs []error
	if len(m.clients) > 0 {
		errs = append(errs, m.clients[0].Discard(ctx))
	}
	var closing sync.WaitGroup
	for _, c := range m.clients {
		closing.Go(func() { _ = c.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// turns is how often each measure has its turn.
const turns = 2

// run lets the measures take turns.
func (m *meter) run(ctx context.Context, o Options) ([]Row, error) {
	var all []*series
	for _, n := range o.Clients {
		all = append(all, &series{measure: Raw, clients: n, cycle: m.raw}, &series{measure: Own, clients: n, cycle: m.own})
	}
	for _, n := range o.Clients {
		if n > 1 {
			all = append(all, &series{measure: Handover, clients: n, cycle: m.handover()})
		}
	}
	all = append(all, &series{measure: Preemption, clients: 1, cycle: m.preempt})
	slice := o.For / time.Duration(turns*len(all))
	for range turns {
		for _, s := range all {
			if err := s.turn(ctx, slice); err != nil {
				return nil, err
			}
		}
	}
	rows := make([]Row, len(all))
	raw := map[int]float64{}
	for i, s := range all {
		rows[i] = s.row()
		switch s.measure {
		case Raw:
			raw[s.clients] = rows[i].PerSecond
		case Own:
			rows[i].OfRaw = ratio(rows[i].PerSecond, raw[s.clients])
		}
	}
	return rows, nil
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// --- the cycles -------------------------------------------------------------------

// surely gives back what was taken, also when the caller has gone.
func surely(ctx context.Context, give func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	return give(ctx)
}

// A lap takes note of how long the steps of a cycle took.
type lap func(step string, took time.Duration)

func (m *meter) raw(ctx context.Context, i int, lap lap) error {
	began := time.Now()
	node, err := m.probes[i].Create(ctx)
	if err != nil {
		return err
	}
	created := time.Now()
	if err := surely(ctx, func(ctx context.Context) error { return m.probes[i].Delete(ctx, node) }); err != nil {
		return err
	}
	lap("create", created.Sub(began))
	lap("delete", time.Since(created))
	return nil
}

func (m *meter) own(ctx context.Context, i int, lap lap) error {
	return cycle(ctx, m.clients[i], ownScope(i), lap)
}

func ownScope(i int) string { return fmt.Sprintf("own/%d", i) }

// cycle takes a lock and gives it back.
func cycle(ctx context.Context, c *lock.Client, scope string, lap lap) error {
	l, err := c.PriorityLock(scope)
	if err != nil {
		return err
	}
	began := time.Now()
	grant, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}})
	if err != nil {
		return err
	}
	granted := time.Now()
	if err := surely(ctx, grant.Release); err != nil {
		return err
	}
	if lap != nil {
		lap("acquire", granted.Sub(began))
		lap("release", time.Since(granted))
	}
	return nil
}

// handover returns a cycle in which all want one lock. What counts is how long
// it has no holder: from the begin of a release to the next grant.
func (m *meter) handover() func(context.Context, int, lap) error {
	var released atomic.Pointer[time.Time]
	return func(ctx context.Context, i int, lap lap) error {
		l, err := m.clients[i].PriorityLock("one")
		if err != nil {
			return err
		}
		asked := time.Now()
		grant, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}})
		if err != nil {
			return err
		}
		if before := released.Load(); before != nil && before.After(asked) { // by somebody else, while this one waited
			lap("from release to grant", time.Since(*before))
		}
		now := time.Now()
		released.Store(&now)
		return surely(ctx, grant.Release)
	}
}

// preempt lets an important request meet a holder.
func (m *meter) preempt(ctx context.Context, _ int, lap lap) error {
	const scope = "preempted"
	asked := make(chan time.Time, 1)
	victim, err := m.clients[0].PriorityLock(scope)
	if err != nil {
		return err
	}
	preemptor, err := m.clients[1].PriorityLock(scope)
	if err != nil {
		return err
	}
	held, err := victim.Acquire(ctx, lock.Request{Identity: priority.Identity{
		Owner: "bench",
	}, Terms: priority.Terms{CleanupTimeout: time.Minute}, Notify: func(n lock.Notice) {
		if _, ok := n.(lock.PreemptRequested); ok {
			select {
			case asked <- time.Now():
			default:
			}
		}
	}})
	if err != nil {
		return err
	}
	// Extend reads the holder's node, so that it is watched by now.
	if err := held.Extend(ctx, time.Minute); err != nil {
		return errors.Join(err, surely(ctx, held.Release))
	}
	type outcome struct {
		at    time.Time
		grant *lock.Grant
		err   error
	}
	granted := make(chan outcome, 1)
	began := time.Now()
	go func() {
		grant, err := preemptor.Acquire(ctx,
			lock.Request{Identity: priority.Identity{Owner: "bench"}, Terms: priority.Terms{Priority: 5}})
		granted <- outcome{time.Now(), grant, err}
	}()
	select {
	case told := <-asked:
		lap("to the holder's being told", told.Sub(began))
	case <-ctx.Done():
	}
	released := time.Now()
	err = surely(ctx, held.Release)
	next := <-granted
	if next.err != nil {
		return errors.Join(err, next.err)
	}
	if err != nil {
		return errors.Join(err, surely(ctx, next.grant.Release))
	}
	lap("from its release to the grant", next.at.Sub(released))
	return surely(ctx, next.grant.Release)
}
