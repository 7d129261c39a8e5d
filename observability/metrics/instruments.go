package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Kind says how the numbers of an instrument are to be read.
type Kind string

// The kinds of instruments.
const (
	Counter   Kind = "counter"   // only grows
	Gauge     Kind = "gauge"     // what is there now
	Histogram Kind = "histogram" // how long things took
)

// An Instrument is one thing that is measured, as data: documentation, dashboards
// and alerts are checked against it.
type Instrument struct {
	Name        string // as OpenTelemetry has it: lockkeeper.lock.wait.duration
	Kind        Kind
	Unit        string   // s for seconds, {thing} for what is counted, or ""
	Attributes  []string // those that its series may have, as OpenTelemetry has them
	Description string
	Buckets     []float64 // upper bounds, of histograms alone
}

// Prometheus returns the name of the metric in Prometheus, for histograms without
// _bucket, _sum and _count.
func (i Instrument) Prometheus() string {
	name := underscored(i.Name)
	if i.Unit == "s" && !strings.HasSuffix(name, "_seconds") {
		name += "_seconds"
	}
	if i.Kind == Counter {
		name += "_total"
	}
	return name
}

// Labels returns the attributes as Prometheus has them.
func (i Instrument) Labels() []string {
	labels := make([]string, len(i.Attributes))
	for n, a := range i.Attributes {
		labels[n] = underscored(a)
	}
	return labels
}

func underscored(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Attributes of the instruments. The name of a job is not called job, which is
// a label that Prometheus gives to what it scrapes.
const (
	jobName        = attribute.Key("job.name")
	outcome        = attribute.Key("outcome")
	reason         = attribute.Key("reason")
	overflow       = attribute.Key("otel.metric.overflow") // as the SDK has it
	lockClass      = attribute.Key("lock.class")
	lockMode       = attribute.Key("lock.mode")
	source         = attribute.Key("source")
	end            = attribute.Key("end")
	result         = attribute.Key("result")
	victimClass    = attribute.Key("victim.class")
	preemptorClass = attribute.Key("preemptor.class")
	state          = attribute.Key("state")
	operation      = attribute.Key("op")
	overrideKind   = attribute.Key("kind")
	overrideSource = attribute.Key("source")
)

// The names of the instruments.
const (
	waitDuration       = "lockkeeper.lock.wait.duration"
	holdDuration       = "lockkeeper.lock.hold.duration"
	cleanupDuration    = "lockkeeper.cleanup.duration"
	preemptionDuration = "lockkeeper.preemption.duration"
	preemptionCount    = "lockkeeper.preemption.count"
	overlapDetected    = "lockkeeper.overlap.detected"

	holderCount    = "lockkeeper.lock.holder.count"
	waiterCount    = "lockkeeper.lock.waiter.count"
	overdueHolders = "lockkeeper.lock.overdue"
	oldestWait     = "lockkeeper.lock.oldest_wait.age"
	oldestHold     = "lockkeeper.lock.oldest_hold.age"
	clusterVisible = "lockkeeper.cluster.visible"

	sessionState       = "lockkeeper.session.state"
	sessionExpirations = "lockkeeper.session.expirations"
	sessionReconnects  = "lockkeeper.session.reconnects"
	sessionTimeout     = "lockkeeper.session.timeout"
	deadlineMargin     = "lockkeeper.session.deadline.margin"
	operationDuration  = "lockkeeper.zk.operation.duration"

	ticks       = "lockkeeper.job.ticks"
	preemptions = "lockkeeper.job.preemptions"
	retries     = "lockkeeper.job.retries"
	stuckRuns   = "lockkeeper.job.stuck_runs"
	jobRunning  = "lockkeeper.job.running"
	jobStuck    = "lockkeeper.job.stuck"

	jobDiffering = "lockkeeper.job.definitions_differing"

	lastReloadOK      = "lockkeeper.config.last_reload_ok"
	configGeneration  = "lockkeeper.config.generation"
	lastReloadTime    = "lockkeeper.config.last_reload_time"
	clockSteps        = "lockkeeper.clock.steps"
	clockOffset       = "lockkeeper.clock.offset"
	buildInfo         = "lockkeeper.build.info"
	overridesActive   = "lockkeeper.overrides.active"
	overridesFileOK   = "lockkeeper.overrides.file_ok"
	overridesServerOK = "lockkeeper.overrides.zookeeper_ok"
)

// Upper bounds of buckets, in seconds.
var (
	waitBuckets      = []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600}
	holdBuckets      = append(slices.Clone(waitBuckets), 14400, 86400)
	cleanupBuckets   = []float64{.01, .1, .5, 1, 5, 15, 30, 60, 300}
	operationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15}
)

// Instruments returns everything that is measured, in the order of the names in
// Prometheus.
//
//nolint:funlen // a table: one row for each instrument
func Instruments() []Instrument {
	all := []Instrument{
		{
			waitDuration, Histogram, "s", keys(lockClass, lockMode, outcome, source),
			"How long requests waited for their lock, until they were granted it or had to go without.", waitBuckets,
		},
		{
			holdDuration, Histogram, "s", keys(lockClass, lockMode, end, source),
			"How long locks were held, cleanup included.", holdBuckets,
		},
		{
			cleanupDuration, Histogram, "s", keys(lockClass, result),
			"How long the cleanup hooks of an interrupted holder took together.", cleanupBuckets,
		},
		{
			preemptionDuration, Histogram, "s", keys(lockClass, result),
			"How long it took from the first preemption of a holder until the preemptor had the lock, or gave up.",
			cleanupBuckets,
		},
		{
			preemptionCount, Counter, "{preemption}", keys(victimClass, preemptorClass, reason),
			"Holders that were preempted, counted by the preemptor's process.", nil,
		},
		{overlapDetected, Counter, "{overlap}", keys(lockClass), "Writes that a resource refused because it had seen a " +
			"newer fencing token: two believed that they held one lock.", nil},

		{holderCount, Gauge, "{holder}", keys(lockClass, lockMode), "Who holds locks now, in the whole cluster.", nil},
		{waiterCount, Gauge, "{waiter}", keys(lockClass, lockMode), "Who waits for locks now, in the whole cluster.", nil},
		{
			overdueHolders, Gauge, "{holder}", keys(lockClass),
			"Holders whose lease is over now, and that keep it because no other request asks for the lock.", nil,
		},
		{oldestWait, Gauge, "s", keys(lockClass), "How long the oldest waiter has waited; 0: no waiter.", nil},
		{oldestHold, Gauge, "s", keys(lockClass), "How long the oldest holder has held; 0: no holder.", nil},
		{clusterVisible, Gauge, "", nil, "1 when what is said of holders and waiters is true now; " +
			"0 when ZooKeeper is not seen, and then nothing is said of them.", nil},

		{
			sessionState, Gauge, "", keys(state),
			"1 for the state in which the ZooKeeper session of this process is, 0 for the others.", nil,
		},
		{
			sessionExpirations, Counter, "{session}", nil,
			"ZooKeeper sessions that have ended against the will of this process: what it held is lost.", nil,
		},
		{sessionReconnects, Counter, "{connection}", nil, "How often this process has connected to ZooKeeper again.", nil},
		{
			sessionTimeout, Gauge, "s", nil,
			"How long ZooKeeper waits for a sign of life before it frees what this process holds.", nil,
		},
		{
			deadlineMargin, Gauge, "s", nil,
			"How long what this process holds is safe if ZooKeeper is silent from now on; not there without a session.", nil,
		},
		{operationDuration, Histogram, "s", keys(operation, result), "How long ZooKeeper took to answer.", operationBuckets},

		{
			ticks, Counter, "{tick}", keys(jobName, outcome, reason),
			"Ticks and runs by hand that have ended here, by their outcome.", nil,
		},
		{
			preemptions, Counter, "{preemption}", keys(jobName),
			"Preemptions after which a run waited for its locks again.", nil,
		},
		{retries, Counter, "{retry}", keys(jobName), "Attempts that failed and were followed by another one.", nil},
		{stuckRuns, Counter, "{run}", keys(jobName), "Runs whose work went on long after it was cancelled.", nil},
		{jobRunning, Gauge, "{run}", keys(jobName), "Runs that go on here, or wait for their locks.", nil},
		{
			jobDiffering, Gauge, "{definition}", keys(jobName),
			"Other definitions of the job that daemons use now. More than 0 for long: two teams have a job of one name.", nil,
		},
		{jobStuck, Gauge, "{run}", keys(jobName), "Runs that go on here long after their work was cancelled.", nil},

		{
			lastReloadOK, Gauge, "", nil,
			"1 when what the configuration file says is in force, 0 when the file was refused.", nil,
		},
		{
			configGeneration, Gauge, "", nil,
			"How many configurations were in force since the start, the present one included.", nil,
		},
		{
			lastReloadTime, Gauge, "s", nil,
			"When the configuration file was read last, whether it was refused or not, in seconds since 1970.", nil,
		},
		{clockOffset, Gauge, "s", nil, "How far the machine's clock is ahead of ZooKeeper's, in seconds; negative: " +
			"behind it; 0: no difference can be told.", nil},
		{clockSteps, Counter, "{step}", nil, "How often the clock has jumped, or the machine was suspended.", nil},
		{
			buildInfo, Gauge, "",
			[]string{"commit", "go.version", "version"},
			"Always 1; the labels say which version this is.", nil,
		},
		{
			overridesActive, Gauge, "{override}", keys(overrideKind, overrideSource),
			"Operators' overrides in force here, by their kind and where they were said.", nil,
		},
		{
			overridesFileOK, Gauge, "", nil,
			"1 when what the overrides file says is in force, 0 when the file was refused.", nil,
		},
		{
			overridesServerOK, Gauge, "", nil,
			"1 when the overrides in ZooKeeper could be read and trusted, 0 when those before stay in force.", nil,
		},
	}
	slices.SortFunc(all, func(a, b Instrument) int { return strings.Compare(a.Prometheus(), b.Prometheus()) })
	return all
}

func keys(all ...attribute.Key) []string {
	names := make([]string, len(all))
	for i, key := range all {
		names[i] = string(key)
	}
	return names
}

// A maker makes instruments as they are defined above.
type maker struct {
	meter    metric.Meter
	all      []Instrument
	made     []metric.Observable
	problems []error
}

func newMaker(meter metric.Meter) *maker { return &maker{meter: meter, all: Instruments()} }

// err says which instruments the meter refuses.
func (m *maker) err() error { return errors.Join(m.problems...) }

// observe has f called for each collection.
func (m *maker) observe(f metric.Callback) (metric.Registration, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.meter.RegisterCallback(f, m.made...)
}

func (m *maker) find(name string, kind Kind) Instrument {
	i := slices.IndexFunc(m.all, func(i Instrument) bool { return i.Name == name && i.Kind == kind })
	if i < 0 {
		m.problems = append(m.problems, fmt.Errorf("metrics: there is no %s %s", kind, name))
		return Instrument{Name: name}
	}
	return m.all[i]
}

func (m *maker) histogram(name string) metric.Float64Histogram {
	i := m.find(name, Histogram)
	h, err := m.meter.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description),
		metric.WithExplicitBucketBoundaries(i.Buckets...))
	m.problems = append(m.problems, err)
	return h
}

func (m *maker) counter(name string) metric.Int64Counter {
	i := m.find(name, Counter)
	c, err := m.meter.Int64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.problems = append(m.problems, err)
	return c
}

func (m *maker) observedCounter(name string) metric.Int64ObservableCounter {
	i := m.find(name, Counter)
	c, err := m.meter.Int64ObservableCounter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.made, m.problems = append(m.made, c), append(m.problems, err)
	return c
}

func (m *maker) gauge(name string) metric.Int64ObservableGauge {
	i := m.find(name, Gauge)
	g, err := m.meter.Int64ObservableGauge(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.made, m.problems = append(m.made, g), append(m.problems, err)
	return g
}

func (m *maker) seconds(name string) metric.Float64ObservableGauge {
	i := m.find(name, Gauge)
	g, err := m.meter.Float64ObservableGauge(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.made, m.problems = append(m.made, g), append(m.problems, err)
	return g
}

// sum is a gauge whose series may be added up.
func (m *maker) sum(name string) metric.Int64ObservableUpDownCounter {
	i := m.find(name, Gauge)
	g, err := m.meter.Int64ObservableUpDownCounter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Description))
	m.made, m.problems = append(m.made, g), append(m.problems, err)
	return g
}
