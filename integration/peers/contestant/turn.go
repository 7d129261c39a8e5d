package contestant

// A Turn is a command for a contestant. Members that say nothing to a Do are ignored.
type Turn struct {
	// Do is one of the words below.
	Do string `json:"do"`

	// Locks has the lock of each worker. Worker i uses the client i modulo Clients.
	Locks []string `json:"locks,omitempty"`

	// Clients is how many connections, each with a session of its own, the workers use. 0: one for each worker.
	Clients int `json:"clients,omitempty"`

	// Seconds is how long the turn takes, for Cycles.
	Seconds float64 `json:"seconds,omitempty"`

	// WorkMicros is how long the lock is kept, without using the processor.
	WorkMicros int `json:"work_us,omitempty"`

	// Permits is how many may be inside at a time, for semaphores.
	Permits int `json:"permits,omitempty"`

	// LocalQueue asks ours for clients that pass the lock on inside so often in a row ([lock.Config]); others
	// have no such thing.
	LocalQueue int `json:"local_queue,omitempty"`

	// Shared asks for the lock in shared mode.
	Shared bool `json:"shared,omitempty"`

	// Check is a directory in which every holder makes a file of its own kind, one of as many as there may be inside;
	// a holder that finds all of them there counts a violation. "": nothing is checked, and nothing is measured but
	// the lock.
	Check string `json:"check,omitempty"`

	// Count is how often: hand-overs of Pass, preemptions of Preempt, takeovers of Takeover.
	Count int `json:"count,omitempty"`
}

// What a contestant can be told to do.
const (
	Cycles   = "cycles"   // acquire, work, release, until the time is over
	Queue    = "queue"    // Locks' workers acquire the first of the locks; answered at once, they wait until Pass
	Pass     = "pass"     // hand the lock of Queue on, Count times
	Hold     = "hold"     // acquire the first of the locks, and keep it
	Acquire  = "acquire"  // acquire the first of the locks, and release it
	Preempt  = "preempt"  // an important request meets a holder that cleans up for the length of the work
	Takeover = "takeover" // a forceful request meets a holder that does not go
)

// A Result is what a contestant has measured in a turn.
type Result struct {
	// Cycles is how many ended in time, Late how many ended after it: those count for what a cycle costs.
	Cycles int `json:"cycles"`
	Late   int `json:"late,omitempty"`

	// Seconds is how long that took.
	Seconds float64 `json:"seconds"`

	// P50Micros and P99Micros are of the time that acquire and release took together, the work left out; of
	// hand-overs, the time from the call that releases to the return of the call that acquires.
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`

	// CPUMillis is the processor time of the process.
	CPUMillis float64 `json:"cpu_ms"`

	// Errors is how many cycles failed, FirstError the first of them.
	Errors     int    `json:"errors"`
	FirstError string `json:"first_error,omitempty"`

	// Violations is how often more were inside than may be.
	Violations int `json:"violations,omitempty"`

	// Series holds what Preempt and Takeover measure, by name.
	Series map[string]Spread `json:"series,omitempty"`

	// Error says that the turn could not be played at all.
	Error string `json:"error,omitempty"`
}

// A Spread is the median and the 99th percentile of durations.
type Spread struct {
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
}
