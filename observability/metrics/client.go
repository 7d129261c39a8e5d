package metrics

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/lockkeeper/lockkeeper/observability/internal/backlog"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Client makes the instruments of a client of ZooKeeper. Its Health is asked for each
// collection; each of its operations is recorded, which takes the place of whatever
// listened to them (lock.Client.OnOperation). An error says which instrument the
// meter refuses. Of the options, WithDelay alone matters here: what is late is recorded before each collection.
func Client(meter metric.Meter, c *lock.Client, opts ...Option) error {
	var o options
	for _, option := range opts {
		if err := option(&o); err != nil {
			return err
		}
	}
	record, err := operations(meter)
	if err != nil {
		return err
	}
	late := backlog.New(o.delay, record)
	health := func() lock.Health {
		late.Flush()
		return c.Health()
	}
	if err := session(meter, health); err != nil {
		return err
	}
	c.OnOperation(late.Add)
	return nil
}

// operations returns what records an operation.
func operations(meter metric.Meter) (func(zkclient.Operation), error) {
	m := newMaker(meter)
	took := m.histogram(operationDuration)
	if err := m.err(); err != nil {
		return nil, err
	}
	all := newFamily(operation, result)
	for _, name := range zkclient.OperationNames() { // so that nothing is made while answers are read
		for _, how := range zkclient.OperationResults() {
			all.of(values{name, string(how)})
		}
	}
	return func(o zkclient.Operation) {
		took.Record(context.Background(), o.Took.Seconds(), all.of(values{o.Name, string(o.Result)}))
	}, nil
}

func session(meter metric.Meter, health func() lock.Health) error {
	m := newMaker(meter)
	states, timeout, left := m.gauge(sessionState), m.seconds(sessionTimeout), m.seconds(deadlineMargin)
	expirations, reconnects := m.observedCounter(sessionExpirations), m.observedCounter(sessionReconnects)
	all := newFamily(state)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		now := health()
		for _, s := range zkclient.SessionStates() {
			o.ObserveInt64(states, oneIf(now.State == s), all.of(values{string(s)}))
		}
		o.ObserveInt64(expirations, int64(now.Expirations))
		o.ObserveInt64(reconnects, int64(now.Reconnects))
		o.ObserveFloat64(timeout, now.Timeout.Seconds())
		// else nothing can be held, and nothing is near its end
		if now.State == zkclient.SessionConnected || now.State == zkclient.SessionSuspended {
			o.ObserveFloat64(left, now.Left.Seconds())
		}
		return nil
	})
	return err
}
