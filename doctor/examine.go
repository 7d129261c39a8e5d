package doctor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Options say what is examined.
type Options struct {
	// AdminPort is where the admin servers of ZooKeeper listen. Defaults to
	// 8080.
	AdminPort int

	// Client says how to reach ZooKeeper.
	Client lock.Config

	// Config is the configuration file, read; nil when there is none, or none
	// that can be used.
	Config *config.Config

	// ConfigError is why the file cannot be used; nil for one that can.
	ConfigError error

	// File is the name of the configuration file; "" for none.
	File string

	// IdleAfter is how long a scope is not used before it counts as idle.
	// Defaults to 30 days.
	IdleAfter time.Duration

	// ReadOnly leaves out what writes: how long writes take is not known then,
	// nor is the clock of the leader.
	ReadOnly bool

	// Secrets are the files with passwords and keys that are not in Config.
	Secrets []string

	// Timeout bounds the whole examination. Defaults to 10s.
	Timeout time.Duration
}

// The defaults of Options.
const (
	DefaultAdminPort = 8080
	DefaultIdleAfter = 30 * 24 * time.Hour
	DefaultTimeout   = 10 * time.Second
)

// Examine looks at everything there is, and returns what it found. It has no
// error: what cannot be seen is a finding. It returns in time, also when nothing
// answers.
func Examine(ctx context.Context, o Options) Report {
	began := time.Now()
	if o.AdminPort == 0 {
		o.AdminPort = DefaultAdminPort
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = DefaultIdleAfter
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	o.Client.Logger = slog.New(slog.DiscardHandler)
	x := &examiner{options: o}
	x.closing, x.closed = context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer x.closed()
	// What is left of the time is for leaving in good order.
	asking, cancel := context.WithTimeout(ctx, o.Timeout*4/5)
	defer cancel()
	x.collect(asking)
	x.leaving.Wait()
	return Report{Findings: judge(x.facts, o), Took: time.Since(began)}
}

// facts are what was seen.
type facts struct {
	servers   []*server // in the order of the connect string
	members   []zkclient.EnsembleMember
	survey    survey.Survey
	surveyErr error
	posted    []opstore.PostedOverride
	postedErr error
	known     *zkclient.Identities // as an operator has left them; nil: none set, or they cannot be read
	unknown   error                // why the client must make no nodes; nil if it may
	audit     opstore.AuditReport
	auditErr  error
	urgent    []urgent
	urgentErr error
	ticks     []ticks.State
	ticksErr  error
	serverNow time.Time
	temporal  error
	host      host
	now       time.Time
	granted   time.Duration // session timeout
}

// answers reports whether a server has given us a session.
func (f *facts) answers() bool { return slices.ContainsFunc(f.servers, (*server).up) }

// An examiner collects facts.
type examiner struct {
	options Options
	facts   facts

	closing context.Context
	closed  context.CancelFunc
	leaving sync.WaitGroup
}

func (x *examiner) collect(ctx context.Context) {
	x.facts.now = time.Now()
	var looking sync.WaitGroup
	looking.Go(func() { x.facts.host = examineHost(x.options.stateDir()) })
	if x.asksTemporal() {
		looking.Go(func() { x.facts.temporal = checkTemporal(ctx, x.options.Config.Temporal) })
	}
	looking.Go(func() {
		x.askServers(ctx)
		if x.facts.answers() {
			x.look(ctx)
		}
	})
	looking.Wait()
}

func (x *examiner) askServers(ctx context.Context) {
	addresses := x.options.Client.Servers
	if len(addresses) == 0 {
		addresses = []string{"localhost:2181"}
	}
	x.facts.servers = make([]*server, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() { x.facts.servers[i] = x.ask(ctx, address) })
	}
	asking.Wait()
}

// look looks into the tree, through a server that answers.
func (x *examiner) look(ctx context.Context) {
	cfg := x.options.Client
	cfg.Servers = nil
	for _, s := range x.facts.servers {
		if s.up() {
			cfg.Servers = append(cfg.Servers, s.address)
		}
	}
	client, err := lock.NewClient(cfg)
	if err == nil {
		defer x.close(client)
		err = client.Ready(ctx)
	}
	if err != nil {
		x.facts.surveyErr, x.facts.auditErr = err, err
		return
	}
	x.facts.unknown = client.CheckIdentities(ctx)
	x.facts.known, _ = client.Identities(ctx)
	x.facts.granted = client.SessionTimeout()
	x.facts.members, _ = client.Ensemble(ctx) // without, the leader tells how many vote
	var looking sync.WaitGroup
	looking.Go(func() {
		x.facts.survey, x.facts.surveyErr = survey.Take(ctx, client.Client,
			survey.Options{IdleSince: x.facts.now.Add(-x.options.IdleAfter)})
	})
	looking.Go(func() { x.lookAtTicks(ctx, client) })
	looking.Go(func() { x.facts.audit, x.facts.auditErr = verify(ctx, client) })
	looking.Wait()
	x.lookAtEmergencies(ctx, client)
}

// close closes a client in the background; Examine waits for that.
func (x *examiner) close(client *lock.Client) {
	x.leaving.Go(func() { _ = client.Close(x.closing) })
}

func (o Options) stateDir() string {
	if o.Config == nil {
		return ""
	}
	return o.Config.StateDir
}

// judge lets every check speak, in the order in which one would read them.
func judge(f facts, o Options) []Finding {
	checks := []struct {
		name  string
		check func(*findings, *facts, Options)
	}{
		{"config", checkConfig},
		{"overrides", checkOverrides},
		{"server", checkServers},
		{"monitoring", checkMonitoring},
		{"version", checkVersions},
		{"quorum", checkQuorum},
		{"latency", checkLatency},
		{"round_trips", checkRoundTrips},
		{"load", checkLoad},
		{"session", checkSession},
		{"lease", checkLeases},
		{"clock", checkClocks},
		{"ticks", checkTicks},
		{"access", checkAccess},
		{"secrets", checkSecrets},
		{"emergency", checkEmergency},
		{"jobs", checkJobs},
		{"nodes", checkNodes},
		{"records", checkRecords},
		{"size", checkSize},
		{"audit", checkAudit},
		{"temporal", checkTemporalAnswer},
		{"state_dir", checkStateDir},
		{"files", checkFiles},
		{"time_sync", checkTimeSync},
	}
	if known := f.known; known != nil && len(o.Client.Operators)+len(o.Client.Contenders)+len(o.Client.Readers) == 0 {
		o.Client.Operators, o.Client.Contenders, o.Client.Readers = known.Operators, known.Contenders, known.Readers
	}
	var all []Finding
	for _, c := range checks {
		said := &findings{check: c.name}
		c.check(said, &f, o)
		all = append(all, said.all...)
	}
	return all
}
