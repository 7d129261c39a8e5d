package contestant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// arguments are what happens between a holder and a request that is more important. No peer has that.
type arguments struct{ options Options }

// The series that arguments measure.
const (
	SeriesAsk      = "ask"      // from the request to the victim's being told
	SeriesStart    = "start"    // from the victim's release to the preemptor's grant
	SeriesRead     = "read"     // one read, on a connection of its own
	SeriesWrite    = "write"    // one write, likewise
	SeriesTakeover = "takeover" // from the forceful request to its grant
)

func (a arguments) play(ctx context.Context, turn Turn) (Result, error) {
	low, err := connect(ctx, a.options, 0, 0)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = low.Close(context.WithoutCancel(ctx)) }()
	high, err := connect(ctx, a.options, 0, 0)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = high.Close(context.WithoutCancel(ctx)) }()
	ping, err := dial(ctx, a.options.server(0), a.options.Session)
	if err != nil {
		return Result{}, err
	}
	defer ping.Close()
	pinged, err := ping.Create("/ping-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return Result{}, err
	}
	m := &meeting{turn: turn, low: low, high: high, series: map[string][]time.Duration{}}
	before, start := processor(), time.Now()
	for range turn.Count {
		if err := errors.Join(m.ping(ping, pinged), m.once(ctx)); err != nil {
			return Result{}, err
		}
	}
	r := Result{
		Cycles: turn.Count, Seconds: time.Since(start).Seconds(), CPUMillis: millis(processor() - before),
		Series: map[string]Spread{},
	}
	for name, all := range m.series {
		r.Series[name] = spread(all)
	}
	return r, nil
}

// A meeting is a victim and a preemptor, each with a client of its own.
type meeting struct {
	turn      Turn
	low, high *lock.Client
	series    map[string][]time.Duration
}

func (m *meeting) add(series string, d time.Duration) { m.series[series] = append(m.series[series], d) }

// ping measures a read and a write of an uncontended node.
func (m *meeting) ping(conn *zk.Conn, node string) error {
	start := time.Now()
	_, _, err := conn.Exists(node)
	read := time.Now()
	if err == nil {
		_, err = conn.Set(node, nil, -1)
	}
	m.add(SeriesRead, read.Sub(start))
	m.add(SeriesWrite, time.Since(read))
	return err
}

func (m *meeting) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	scope := m.turn.Locks[0]
	victim, err := m.low.PriorityLock(scope)
	if err != nil {
		return err
	}
	preemptor, err := m.high.PriorityLock(scope)
	if err != nil {
		return err
	}
	told := make(chan time.Time, 1)
	held, err := victim.Acquire(ctx, lock.Request{
		Terms: priority.Terms{CleanupTimeout: time.Minute}, Notify: func(n lock.Notice) {
			if _, ok := n.(lock.PreemptRequested); ok {
				told <- time.Now()
			}
		},
	})
	if err != nil {
		return err
	}
	// The holder's watch is armed when this returns: it reads its node.
	if err := held.Extend(ctx, time.Minute); err != nil {
		return err
	}
	request := lock.Request{Terms: priority.Terms{Priority: 5}}
	if m.turn.Do == Takeover {
		request.Forceful, request.WaitingTimeout = true, new(time.Duration)
	}
	granted, over := make(chan time.Time, 1), make(chan error, 1)
	asked := time.Now()
	go func() {
		g, err := preemptor.Acquire(ctx, request)
		granted <- time.Now()
		if err == nil {
			err = g.Release(ctx)
		}
		over <- err
	}()
	if m.turn.Do == Takeover {
		m.add(SeriesTakeover, (<-granted).Sub(asked))
		return <-over
	}
	select {
	case at := <-told:
		m.add(SeriesAsk, at.Sub(asked))
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("the victim was not preempted: %w", context.Cause(ctx)), <-over)
	}
	pause(ctx, m.turn.WorkMicros)
	released := time.Now()
	err = held.Release(ctx)
	m.add(SeriesStart, (<-granted).Sub(released))
	return errors.Join(err, <-over)
}
