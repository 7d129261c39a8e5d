package lockkeeper

import (
	"log/slog"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// An Event is one step in the life of a request: Kind says which one, such as "queued",
// "acquired" or "released".
type Event = lockguard.Event

// An Observer is called with every Event. It must return soon, and must not call the
// Guard.
type Observer = lockguard.Observer

// WithObserver adds an Observer to a Guard. It can be given several times.
func WithObserver(observer Observer) Option { return lockguard.WithObserver(observer) }

// LogObserver writes one line to logger for every Event.
func LogObserver(logger *slog.Logger) Observer { return lockguard.LogObserver(logger) }
