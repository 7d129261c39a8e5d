package temporal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultStopTimeout is how long a worker that stops waits for its activities,
// at least.
const DefaultStopTimeout = 11 * time.Second

// StopPolicy says what becomes of activities that hold a lock when their worker
// stops.
type StopPolicy uint8

const (
	// StopDrain (default) lets them go on for worker.Options.WorkerStopTimeout.
	// Then their contexts end with worker.ErrWorkerShutdown as the cause, their
	// hooks run, and they fail with ErrTypeLockHandover.
	StopDrain StopPolicy = iota

	// StopYield ends their contexts at once, with that cause.
	StopYield
)

func (s StopPolicy) String() string {
	switch s {
	case StopDrain:
		return "drain"
	case StopYield:
		return "yield"
	}
	return fmt.Sprintf("StopPolicy(%d)", uint8(s))
}

// WithStopPolicy sets what becomes of activities that hold a lock when their
// worker stops. Activities that wait for a lock yield in any case, if another
// attempt may follow. Defaults to StopDrain.
func WithStopPolicy(policy StopPolicy) PluginOption {
	return func(p *Plugin) error {
		if policy > StopYield {
			return fmt.Errorf("temporal: WithStopPolicy: %s is unknown; use StopDrain or StopYield", policy)
		}
		p.stopPolicy = policy
		return nil
	}
}

// WithStopTimeout sets the least that workers have as their WorkerStopTimeout,
// which should be longer than any cleanup of activities, also of those that
// declare their locks per call. It is raised to a second more than the longest
// cleanup timeout that is declared with Declare. Defaults to DefaultStopTimeout.
func WithStopTimeout(timeout time.Duration) PluginOption {
	return func(p *Plugin) error {
		if timeout <= 0 {
			return fmt.Errorf("temporal: WithStopTimeout: %s is not positive; write how long activities have to clean up",
				timeout)
		}
		p.stopTimeout = timeout
		return nil
	}
}

// A host is a worker that the plugin is installed in.
type host struct {
	plugin    *Plugin
	key       string
	taskQueue string
	slots     lots
	tickets   tickets
	offers    declarations // of the structs that are registered with the worker
	real      atomic.Bool  // with a server behind it

	mu       sync.Mutex
	running  bool
	lasting  context.Context // ends when the plugin has left the worker
	end      context.CancelFunc
	stopping chan struct{} // closed when the worker begins to stop
	attempts int           // under a lock, or on the way there
	idle     chan struct{} // closed when there is none; nil: without a waiter
	longest  time.Duration // cleanup timeout of the attempts
}

func newHost(p *Plugin, key, taskQueue string) *host {
	h := &host{plugin: p, key: key, taskQueue: taskQueue, stopping: make(chan struct{})}
	h.lasting, h.end = context.WithCancel(context.Background())
	return h
}

// enter reports whether the worker was not running yet.
func (h *host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running {
		return false
	}
	h.running = true
	if closed(h.stopping) { // in a test environment
		h.stopping = make(chan struct{})
		h.lasting, h.end = context.WithCancel(context.Background())
	}
	return true
}

// leave reports whether the worker begins to stop, and has it known.
func (h *host) leave() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		return false
	}
	h.running = false
	close(h.stopping)
	return true
}

// background lasts until the plugin has left the worker.
func (h *host) background() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lasting
}

func (h *host) stops() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopping
}

func (h *host) isReal() bool { return h.real.Load() }

// begin counts an attempt, until it calls end.
func (h *host) begin(cleanup time.Duration) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempts++
	h.longest = max(h.longest, cleanup)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.attempts--
		if h.attempts == 0 && h.idle != nil {
			close(h.idle)
			h.idle = nil
		}
	}
}

// componentsTimeout bounds how long the components take to leave: to hand over what
// they have, and then to release what was not taken over.
const componentsTimeout = DefaultHandover + 6*time.Second

// drain waits until no attempt holds a lock any more, but not longer than their
// cleanup may take, then for the components.
func (h *host) drain(ctx context.Context) {
	h.mu.Lock()
	idle := make(chan struct{})
	if h.attempts == 0 {
		close(idle)
	} else {
		h.idle = idle
	}
	limit := max(h.plugin.stopTimeout, h.longest+time.Second)
	end := h.end
	h.mu.Unlock()
	defer end()

	attempts, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-idle:
	case <-attempts.Done():
		h.plugin.logger.Warn("worker stops although activities hold locks", "task_queue", h.taskQueue)
	}
	ctx, cancel = context.WithTimeout(ctx, componentsTimeout)
	defer cancel()
	for _, c := range h.plugin.components {
		c.drain(ctx, h)
	}
	h.tickets.drain(ctx, end)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
