package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// PluginName is the name of the Plugin among those of workers and clients.
const PluginName = "lockkeeper"

// A Plugin makes workers run activities under the locks that are declared for
// them. It goes into the Plugins of worker.Options, or of client.Options, which
// installs it for all workers of the client; both is the same as one.
//
// Its interceptor is added as the last one: it is inside those for traces, so
// that waiting and holding are parts of the activity's span. It is safe for
// concurrent use, and one is enough for a process.
type Plugin struct {
	client.PluginBase
	workerBase

	guard        *lockguard.Guard
	logger       *slog.Logger
	declarations declarations // by Declare
	offers       declarations // by structs, of all workers
	components   []component
	stopPolicy   StopPolicy
	stopTimeout  time.Duration
	maxParked    *int // nil: the default
	priorities   func(sdk.Priority) priority.Level
	maxTickets   int
	claimWindow  time.Duration
	keepOptions  bool

	mu    sync.Mutex
	hosts map[string]*host // by the key of the worker, for good: a test environment starts one again
}

// workerBase is worker.PluginBase under a name of its own.
type workerBase struct{ worker.PluginBase }

// A PluginOption changes a Plugin. See NewPlugin.
type PluginOption func(*Plugin) error

// NewPlugin returns a Plugin that takes its locks through guard. The error is
// about the options: each of them that cannot be.
//
// The guard and its ZooKeeper client are the caller's, to close after all
// workers have stopped.
func NewPlugin(guard *lockguard.Guard, options ...PluginOption) (*Plugin, error) {
	if guard == nil {
		return nil, errors.New("temporal: NewPlugin: the guard is nil; make one with lockguard.New")
	}
	p := &Plugin{
		guard:       guard,
		logger:      slog.New(slog.DiscardHandler),
		stopTimeout: DefaultStopTimeout,
		priorities:  PriorityOf,
		maxTickets:  DefaultMaxTickets,
		claimWindow: DefaultClaimWindow,
		hosts:       make(map[string]*host),
	}
	var problems []error
	for _, option := range options {
		problems = append(problems, option(p))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	p.components = append(p.components, newWorkflowHolds(p))
	return p, nil
}

// WithLogger sets where the plugin logs what is not logged elsewhere:
// heartbeats that fail, tickets that are dropped. Defaults to silence. For the
// steps of the locks themselves see lockguard.LogObserver.
func WithLogger(logger *slog.Logger) PluginOption {
	return func(p *Plugin) error {
		if logger == nil {
			return errors.New("temporal: WithLogger: the logger is nil; leave the option out for silence")
		}
		p.logger = logger
		return nil
	}
}

// A component is a part of the plugin that lives and ends with each worker.
type component interface {
	// configure may change the options of a worker that is being made.
	configure(h *host, options *worker.Options) error

	// start is called before the worker polls. The registry takes activities.
	start(ctx context.Context, h *host, registry activityRegistry) error

	// drain is called when the worker has stopped polling, and its activities
	// have returned or were cancelled. It returns when nothing is left of the
	// component, or when ctx ends.
	drain(ctx context.Context, h *host)
}

// A replayed component is needed in replays as well.
type replayed interface {
	// replay may change the options of a replayer that is being made.
	replay(options *worker.WorkflowReplayerOptions)
}

type activityRegistry interface {
	RegisterActivityWithOptions(activity any, options activity.RegisterOptions)
}

// Name returns PluginName.
func (p *Plugin) Name() string { return PluginName }

// ConfigureClient leaves the client as it is: the SDK applies its plugins to
// its workers by itself.
func (p *Plugin) ConfigureClient(context.Context, client.PluginConfigureClientOptions) error {
	return nil
}

// ConfigureWorker adds the interceptor and ParkingSlots, and raises
// WorkerStopTimeout, if it is shorter, to what cleanups need.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	for _, other := range o.WorkerOptions.Interceptors {
		w, ok := other.(*workerInterceptor)
		switch {
		case !ok:
		case w.host.plugin == p:
			return nil // by the client and by the worker
		default:
			return errors.New("temporal: two plugins of lockkeeper are installed; give both what they declare to one NewPlugin")
		}
	}
	h := newHost(p, o.WorkerInstanceKey, o.TaskQueue)
	for _, c := range p.components {
		if err := c.configure(h, o.WorkerOptions); err != nil {
			return err
		}
	}
	slots, err := tune(o.WorkerOptions, p.maxParked)
	if err != nil {
		return err
	}
	h.slots = slots
	o.WorkerOptions.WorkerStopTimeout = max(o.WorkerOptions.WorkerStopTimeout, p.stopTimeout,
		p.declarations.cleanup()+time.Second)
	o.WorkerOptions.Interceptors = append(slices.Clip(o.WorkerOptions.Interceptors), &workerInterceptor{host: h})

	registered := o.WorkerRegistryOptions.OnRegisterActivity
	o.WorkerRegistryOptions.OnRegisterActivity = func(a any, options activity.RegisterOptions) {
		if registered != nil {
			registered(a, options)
		}
		h.ask(a, options)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[h.key] = h
	return nil
}

// ConfigureWorkflowReplayer adds the interceptor: histories replay the same with
// and without it.
func (p *Plugin) ConfigureWorkflowReplayer(_ context.Context, o worker.PluginConfigureWorkflowReplayerOptions) error {
	for _, other := range o.WorkflowReplayerOptions.Interceptors {
		if w, ok := other.(*workerInterceptor); ok && w.host.plugin == p {
			return nil
		}
	}
	for _, c := range p.components {
		if r, ok := c.(replayed); ok {
			r.replay(o.WorkflowReplayerOptions)
		}
	}
	o.WorkflowReplayerOptions.Interceptors = append(slices.Clip(o.WorkflowReplayerOptions.Interceptors),
		&workerInterceptor{host: newHost(p, o.WorkflowReplayerInstanceKey, "")})
	return nil
}

// StartWorker starts the parts of the plugin, then the worker.
func (p *Plugin) StartWorker(ctx context.Context, o worker.PluginStartWorkerOptions, next func(
	context.Context, worker.PluginStartWorkerOptions,
) error,
) error {
	h := p.host(o.WorkerInstanceKey)
	if h == nil || !h.enter() {
		return next(ctx, o)
	}
	_, genuine := o.WorkerRegistry.(interface{ Stop() }) // a worker registers with itself, a test environment does not
	h.real.Store(genuine)
	for _, c := range p.components {
		if err := c.start(h.background(), h, o.WorkerRegistry); err != nil {
			return fmt.Errorf("temporal: the worker of task queue %s cannot start: %w", h.taskQueue, err)
		}
	}
	return next(ctx, o)
}

// StopWorker stops the worker as the StopPolicy says, and returns when nothing
// runs under a lock any more, or when the time for that is over.
func (p *Plugin) StopWorker(
	ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions),
) {
	h := p.host(o.WorkerInstanceKey)
	if h == nil || !h.leave() {
		next(ctx, o)
		return
	}
	next(ctx, o)
	h.drain(ctx)
}

func (p *Plugin) host(key string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[key]
}

var (
	_ client.Plugin                 = (*Plugin)(nil)
	_ worker.Plugin                 = (*Plugin)(nil)
	_ interceptor.WorkerInterceptor = (*workerInterceptor)(nil)
)
