package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// DefaultDebounce is how long files have to be left alone before they are read.
const DefaultDebounce = 200 * time.Millisecond

// A ReloadConfig says what a Reloader keeps up to date, and how. Apply and
// Current have to be set.
type ReloadConfig struct {
	// Apply puts a new configuration in force, whole or not at all: when it
	// returns an error, everything runs on as it was. It is called for one
	// configuration at a time, and only when something has changed. Its context
	// is that of Run.
	Apply func(ctx context.Context, next *Config, diff Diff) error

	// Current is the configuration in force, from Load. Its File is watched.
	Current *Config

	// Debounce is how long files have to be left alone before they are read, so
	// that none is read half-written. Defaults to DefaultDebounce.
	Debounce time.Duration

	// Live names what Apply can change while everything runs, beside jobs: fields
	// as a Diff has them, for example "log.level", or sections, "drain". A file
	// in which something else has changed is refused. Defaults to none.
	Live []string

	// Logger defaults to silence.
	Logger *slog.Logger

	// Options are those that Current was loaded with.
	Options Options

	// Prepare, if set, does to a configuration that was just read what was done
	// to Current after Load, for example put in what flags say. Defaults to
	// nothing.
	Prepare func(*Config) error
}

// Status says what became of the last change of the file.
type Status struct {
	// At is when the file was read last; the time of NewReloader before that.
	At time.Time

	// Err is why the configuration in force is older than the file: *Errors,
	// *RestartError, or what Apply or Prepare returned. nil when OK.
	Err error

	// Generation counts the configurations that were in force: 1 is the one
	// that NewReloader got.
	Generation int

	// OK is true when what the file says is in force.
	OK bool
}

// A Reloader keeps a configuration up to date with its file, whole or not at
// all: a file with anything wrong in it, or in which something changed that
// takes effect only at a start, leaves the configuration in force as it is. It
// is safe for concurrent use.
type Reloader struct {
	ReloadConfig
	reloadState
	poll    time.Duration
	current *Config
}

// reloadState is the state that reloaders have alike.
type reloadState struct {
	trigger chan struct{}

	mu      sync.Mutex
	status  Status
	waiting []chan error // of Reload, for a reading that has not begun
}

func newReloadState(at time.Time) reloadState {
	return reloadState{trigger: make(chan struct{}, 1), status: Status{At: at, Generation: 1, OK: true}}
}

// Status returns what became of the last change.
func (r *reloadState) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Trigger lets Run read the file now, whether it has changed or not. It does
// not wait. It is what SIGHUP is for.
func (r *reloadState) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // it is about to
	}
}

// Reload lets Run read the file now, like Trigger, and waits until what it says
// is in force or refused: the error is then that of Status. It returns the cause
// of ctx if that ends first.
func (r *Reloader) Reload(ctx context.Context) error {
	done := make(chan error, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, done)
	r.mu.Unlock()
	r.Trigger()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// NewReloader returns a Reloader that does nothing before Run. Its errors are
// of type *lockguard.RequestError.
func NewReloader(cfg ReloadConfig) (*Reloader, error) {
	refuse := func(field, reason string) (*Reloader, error) {
		return nil, &lockguard.RequestError{Field: field, Reason: reason}
	}
	switch {
	case cfg.Apply == nil:
		return refuse("Apply", "is missing; give what puts a configuration in force")
	case cfg.Current == nil || cfg.Current.File == "":
		return refuse("Current", "has no file; give what Load returned")
	case cfg.Debounce < 0:
		return refuse("Debounce", fmt.Sprintf("%s is negative; give a duration, or 0 for %s", cfg.Debounce, DefaultDebounce))
	}
	if cfg.Debounce == 0 {
		cfg.Debounce = DefaultDebounce
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reloader{
		ReloadConfig: cfg,
		reloadState:  newReloadState(time.Now()),
		poll:         lookAgain,
		current:      cfg.Current,
	}, nil
}

// Config returns the configuration in force.
func (r *Reloader) Config() *Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// lookAgain is how often files are looked at though nothing told of a change:
// directories can be replaced, and some file systems tell nothing.
const lookAgain = 10 * time.Second

// patience bounds how long changes that do not end put off the reading.
const patience = 20 // times the debounce

// Run watches the file, and those that it names, until ctx ends. It reads them
// once at the start: they may have changed since Load. Call it once.
func (r *Reloader) Run(ctx context.Context) {
	w := newWatcher(r.Logger)
	defer w.close()
	r.watch(ctx, w)
}

func (r *Reloader) watch(ctx context.Context, w *watcher) {
	seen := r.Config().read
	w.follow(seen.files())
	if seen.changed() {
		seen = r.reload(ctx, w)
	}
	v := vigil{watcher: w, debounce: r.Debounce, patience: patience * r.Debounce, poll: r.poll, trigger: r.trigger}
	v.keep(ctx, seen, func() contents { return r.reload(ctx, w) })
}

// reload reads the file and puts in force what it says, if that is possible.
// It returns what it has read.
func (r *Reloader) reload(ctx context.Context, w *watcher) contents {
	r.mu.Lock()
	current, waiting := r.current, r.waiting
	r.waiting = nil
	r.mu.Unlock()
	options := r.Options
	options.previous = current
	next, err := Load(current.File, options)
	var seen contents
	if broken, ok := errors.AsType[*Errors](err); ok {
		seen = broken.read
	} else {
		seen = next.read
	}
	w.follow(seen.files())

	if err == nil && r.Prepare != nil {
		err = r.Prepare(next)
	}
	var diff Diff
	if err == nil {
		diff = Compare(current, next)
		err = diff.needsRestart(r.Live)
	}
	if err == nil && !diff.Empty() {
		err = r.Apply(ctx, next, diff)
	}
	if err != nil && next != nil && next.client != current.client {
		next.Close() // it is in use nowhere
	}
	if err == nil && next.client == nil {
		next.client = current.client // runs that go on have it
	}
	r.finish(next, diff, err)
	for _, done := range waiting {
		done <- err
	}
	return seen
}

// finish records and logs what came of it.
func (r *Reloader) finish(next *Config, diff Diff, err error) {
	r.mu.Lock()
	before := r.status
	r.status = Status{At: time.Now(), Err: err, Generation: before.Generation, OK: err == nil}
	if err == nil {
		r.current = next
		if !diff.Empty() {
			r.status.Generation++
		}
	}
	generation, file := r.status.Generation, r.current.File
	r.mu.Unlock()

	log := r.Logger.With("file", file, "generation", generation)
	switch {
	case err != nil:
		logRefused(log, err)
	case !diff.Empty():
		for _, warning := range next.Warnings {
			log.Warn("configuration", "problem", warning.String())
		}
		diff.log(log)
		log.Info("configuration reloaded", "jobs_added", len(diff.Added), "jobs_removed", len(diff.Removed),
			"jobs_changed", len(diff.Changed))
	case !before.OK:
		log.Info("configuration is that of the file again")
	default:
		log.Debug("configuration has not changed")
	}
}

// logRefused logs why a file was refused, each problem on a line.
func logRefused(log *slog.Logger, err error) {
	if broken, ok := errors.AsType[*Errors](err); ok {
		for i, problem := range broken.Problems {
			if i == shown {
				break
			}
			log.Error("configuration", "problem", problem.String())
		}
		log.Error("configuration not reloaded; the one before stays in force", "problems", len(broken.Problems))
		return
	}
	log.Error("configuration not reloaded; the one before stays in force", "error", err)
}
