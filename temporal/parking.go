package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.temporal.io/sdk/worker"
)

// DefaultMaxParked is how many activities of a worker with few slots may lend
// theirs out at a time. With more slots it is as many as those.
const DefaultMaxParked = 100

// ParkingSlots are the slots of a worker's activities, for a worker whose
// activities wait for locks. One that waits lends its slot to another activity
// until it has its lock: it is parked. Otherwise a worker with one slot, in
// which an activity waits for the lock of a workflow, could never run the
// activity that the workflow has to run before it gives the lock back.
//
// A parked activity that gets its lock runs on at once, although its slot is
// taken: the time for which a lock is held is never spent waiting for a slot.
// For that moment more activities run than there are slots, at most as many more
// as may be parked, and no new one begins until there are fewer.
//
// A slot that waits for work from the server is taken, too, as in all workers.
//
// Methods may be called from any goroutine.
type ParkingSlots struct {
	size, maxParked int

	mu      sync.Mutex
	issued  int             // permits that are out
	parked  int             // of those, at most maxParked; at every grant issued-parked <= size
	waiting []chan struct{} // for a permit, in order; none while one could be had
	queues  map[string]bool // for whose tasks there were reservations
}

var _ worker.SlotSupplier = (*ParkingSlots)(nil)

// NewParkingSlots returns slots for a tuner, see worker.NewCompositeTuner: size
// of them, and at most maxParked activities that lend out theirs at any time.
// One more that waits keeps its slot. An error tells which number is out of
// range: size is at least 1, maxParked at least 0.
func NewParkingSlots(size, maxParked int) (*ParkingSlots, error) {
	switch {
	case size < 1:
		return nil, fmt.Errorf("temporal: %d parking slots cannot be: write at least 1", size)
	case maxParked < 0:
		return nil, fmt.Errorf("temporal: %d activities cannot be parked: write 0 for none", maxParked)
	}
	return &ParkingSlots{size: size, maxParked: maxParked, queues: make(map[string]bool)}, nil
}

// NewParkingTuner returns a tuner of fixed sizes whose slots for activities are
// ParkingSlots, those of sessions on their own. Sizes that are not set default
// to those of worker.NewFixedSizeTuner, maxParked 0 to DefaultMaxParked or the
// number of slots, whichever is more.
func NewParkingTuner(sizes worker.FixedSizeTunerOptions, maxParked int) (worker.WorkerTuner, error) {
	fixed, err := worker.NewFixedSizeTuner(sizes)
	if err != nil {
		return nil, err
	}
	size := fixed.GetActivityTaskSlotSupplier().MaxSlots()
	if maxParked == 0 {
		maxParked = max(size, DefaultMaxParked)
	}
	activities, err := NewParkingSlots(size, maxParked)
	if err != nil {
		return nil, err
	}
	sessions, err := NewParkingSlots(size, maxParked)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier:        fixed.GetWorkflowTaskSlotSupplier(),
		ActivitySlotSupplier:        activities,
		LocalActivitySlotSupplier:   fixed.GetLocalActivitySlotSupplier(),
		NexusSlotSupplier:           fixed.GetNexusSlotSupplier(),
		SessionActivitySlotSupplier: sessions,
	})
}

// Park lends out the slot of the calling activity, and unpark takes it back
// without waiting for one. The activity calls unpark before it runs on and
// before it ends, whatever comes first; more calls do nothing. When there are
// as many parked as there may be, parked is false: the slot is kept.
func (s *ParkingSlots) Park() (unpark func(), parked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked >= s.maxParked {
		return func() {}, false
	}
	s.parked++
	s.hand()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parked--
	}), true
}

// ReserveSlot waits for a slot until ctx ends; the error is then that of ctx.
func (s *ParkingSlots) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	granted, err := s.join(ctx, info)
	if err != nil {
		return nil, err
	}
	select {
	case <-granted:
		return &worker.SlotPermit{}, nil
	case <-ctx.Done():
		s.leave(granted)
		return nil, fmt.Errorf("no slot for an activity: %w", ctx.Err())
	}
}

// join returns a channel that is closed when the slot is there.
func (s *ParkingSlots) join(ctx context.Context, info worker.SlotReservationInfo) (granted chan struct{}, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("no slot for an activity: %w", err)
	}
	granted = make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[info.TaskQueue()] = true
	s.waiting = append(s.waiting, granted)
	s.hand()
	return granted, nil
}

// leave gives back what join has got meanwhile.
func (s *ParkingSlots) leave(granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, granted); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
	s.issued--
	s.hand()
}

// TryReserveSlot returns nil when there is no slot at the moment.
func (s *ParkingSlots) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[info.TaskQueue()] = true
	if !s.free() {
		return nil
	}
	s.issued++
	return &worker.SlotPermit{}
}

// MarkSlotUsed does nothing: a slot counts from its reservation on.
func (s *ParkingSlots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot ends what ReserveSlot or TryReserveSlot has begun.
func (s *ParkingSlots) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued--
	s.hand()
}

// MaxSlots returns how many slots can be out at this moment: as many as there
// are, and one more for each activity that is parked. So the SDK's metric of
// slots that are available tells how many activities can begin.
func (s *ParkingSlots) MaxSlots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size + s.parked
}

func (s *ParkingSlots) free() bool { return s.issued-s.parked < s.size }

// hand gives the slots that are free to those who wait.
func (s *ParkingSlots) hand() {
	for len(s.waiting) > 0 && s.free() {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.issued++
	}
}

// serves tells whether activities of a task queue have their slots from s.
func (s *ParkingSlots) serves(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[queue]
}

// lots is where the activities of one worker can be parked: those of its task
// queue, and those in sessions, if there are both.
type lots []*ParkingSlots

// lotsOf finds what a tuner has, which may be the user's own.
func lotsOf(tuner worker.WorkerTuner) lots {
	var l lots
	for _, supplier := range []worker.SlotSupplier{
		tuner.GetActivityTaskSlotSupplier(), tuner.GetSessionActivitySlotSupplier(),
	} {
		if slots, ok := supplier.(*ParkingSlots); ok {
			l = append(l, slots)
		}
	}
	return l
}

// park parks the calling activity, whose task is from a queue, if there is a
// place; full says that there is none at the moment. See ParkingSlots.Park.
func (l lots) park(queue string) (unpark func(), full bool) {
	for _, slots := range l {
		if slots.serves(queue) {
			unpark, parked := slots.Park()
			return unpark, !parked
		}
	}
	return func() {}, false
}

// WithMaxParked sets how many activities of a worker may lend out their slots at
// a time while they wait for their locks, see ParkingSlots; 0 for none: then the
// plugin leaves the slots of the worker alone. Defaults to DefaultMaxParked or the
// number of slots, whichever is more.
//
// A worker with a tuner of its own parks if that has ParkingSlots, in as many as
// they say.
func WithMaxParked(n int) PluginOption {
	return func(p *Plugin) error {
		if n < 0 {
			return fmt.Errorf("temporal: WithMaxParked: %d activities cannot be parked; write 0 for none", n)
		}
		p.maxParked = &n
		return nil
	}
}

// tune puts parking slots into the options of a worker that has no tuner, in
// the sizes that it has, and returns them; a tuner of the user stays. maxParked
// nil means the default.
func tune(options *worker.Options, maxParked *int) (lots, error) {
	switch {
	case options.Tuner != nil:
		return lotsOf(options.Tuner), nil
	case maxParked != nil && *maxParked == 0:
		return nil, nil
	case options.MaxConcurrentWorkflowTaskExecutionSize == 1: // which it would not see any more
		return nil, errors.New(
			"temporal: MaxConcurrentWorkflowTaskExecutionSize is 1, with which the SDK runs no workflow; write at least 2")
	}
	var most int
	if maxParked != nil {
		most = *maxParked
	}
	tuner, err := NewParkingTuner(worker.FixedSizeTunerOptions{
		NumWorkflowSlots:      options.MaxConcurrentWorkflowTaskExecutionSize,
		NumActivitySlots:      options.MaxConcurrentActivityExecutionSize,
		NumLocalActivitySlots: options.MaxConcurrentLocalActivityExecutionSize,
		NumNexusSlots:         options.MaxConcurrentNexusTaskExecutionSize,
	}, most)
	if err != nil {
		return nil, err
	}
	// The SDK refuses sizes beside a tuner.
	options.MaxConcurrentWorkflowTaskExecutionSize = 0
	options.MaxConcurrentActivityExecutionSize = 0
	options.MaxConcurrentLocalActivityExecutionSize = 0
	options.MaxConcurrentNexusTaskExecutionSize = 0
	options.Tuner = tuner
	return lotsOf(tuner), nil
}
