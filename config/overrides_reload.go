package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
)

// How an overrides file is watched: a change is in force well within a second,
// also without notifications of changes, or if they do not end.
const (
	DefaultOverridesDebounce = 50 * time.Millisecond

	overridesPatience = 10 // times the debounce
	overridesPoll     = 400 * time.Millisecond
)

// An OverridesReloadConfig says what an OverridesReloader keeps up to date, and
// how. Apply and Config have to be set.
type OverridesReloadConfig struct {
	// Apply puts overrides in force, in place of all that it got before. It is
	// called for one file at a time, and only when something has changed.
	Apply func(all []override.Override)

	// Config is the configuration of the daemon. Its Emergency.File is the file;
	// if it names none, there are no overrides. See SetConfig.
	Config *Config

	// Debounce is how long the file has to be left alone before it is read, so
	// that it is not read half-written. Defaults to DefaultOverridesDebounce.
	Debounce time.Duration

	// Env looks up environment variables. Defaults to os.LookupEnv.
	Env func(name string) (value string, set bool)

	// Logger defaults to silence.
	Logger *slog.Logger

	// Now is the time on the ZooKeeper servers. Defaults to the local clock.
	Now func() time.Time
}

// An OverridesReloader keeps overrides up to date with their file, whole or not
// at all: a file with anything wrong in it leaves those before in force, until
// they end by themselves. A file that is not there has none. It is safe for
// concurrent use.
type OverridesReloader struct {
	OverridesReloadConfig
	reloadState
	config *Config
	all    []override.Override // what Apply got last
	read   contents
	told   string // the warnings that were logged last
}

// NewOverridesReloader reads the file and puts in force what it says, so that
// this holds before anything is started. A file with anything wrong in it is no
// error of this function: see Status, whose Err is an *Errors. The errors are of type
// *lockguard.RequestError.
func NewOverridesReloader(cfg OverridesReloadConfig) (*OverridesReloader, error) {
	refuse := func(field, reason string) (*OverridesReloader, error) {
		return nil, &lockguard.RequestError{Field: field, Reason: reason}
	}
	switch {
	case cfg.Apply == nil:
		return refuse("Apply", "is missing; give what puts overrides in force")
	case cfg.Config == nil:
		return refuse("Config", "is missing; give what Load returned")
	case cfg.Debounce < 0:
		return refuse("Debounce",
			fmt.Sprintf("%s is negative; give a duration, or 0 for %s", cfg.Debounce, DefaultOverridesDebounce))
	}
	if cfg.Debounce == 0 {
		cfg.Debounce = DefaultOverridesDebounce
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &OverridesReloader{
		OverridesReloadConfig: cfg, reloadState: newReloadState(time.Time{}), config: cfg.Config,
	}
	r.read = r.reload()
	return r, nil
}

// SetConfig gives the configuration that is in force from now on: the file may
// be another one, or say something else by now, because classes or limits have
// changed. It does not wait.
func (r *OverridesReloader) SetConfig(cfg *Config) {
	r.mu.Lock()
	r.config = cfg
	r.mu.Unlock()
	r.Trigger()
}

// Run watches the file until ctx ends. Call it once.
func (r *OverridesReloader) Run(ctx context.Context) {
	w := newWatcher(r.Logger)
	defer w.close()
	r.watch(ctx, w)
}

func (r *OverridesReloader) watch(ctx context.Context, w *watcher) {
	read := func() contents {
		seen := r.reload()
		w.follow(seen.files())
		return seen
	}
	seen := r.read
	w.follow(seen.files())
	if seen.changed() {
		seen = read()
	}
	v := vigil{
		watcher: w, debounce: r.Debounce, patience: overridesPatience * r.Debounce, poll: overridesPoll, trigger: r.trigger,
	}
	v.keep(ctx, seen, read)
}

// reload reads the file and puts in force what it says, if that is possible.
// It returns what it has read.
func (r *OverridesReloader) reload() contents {
	r.mu.Lock()
	cfg := r.config
	r.mu.Unlock()
	next, err := &Overrides{}, error(nil)
	if name := cfg.Emergency.File; name != "" {
		next, err = LoadOverrides(name, OverridesOptions{Config: cfg, Env: r.Env, Now: r.Now, again: true})
	}
	log := r.Logger.With("file", cfg.Emergency.File)
	if broken, ok := errors.AsType[*Errors](err); ok {
		r.refuse(log, broken)
		return broken.read
	}
	r.accept(log, next)
	return next.read
}

// refuse records and logs why a file is not in force.
func (r *OverridesReloader) refuse(log *slog.Logger, broken *Errors) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.At, r.status.Err, r.status.OK = time.Now(), broken, false
	r.told = ""
	log.Error("overrides file not in force; the overrides before stay so",
		"problems", len(broken.Problems), "overrides", len(r.all), "error", strings.ReplaceAll(broken.Error(), "\n", " | "))
}

// accept puts overrides in force.
func (r *OverridesReloader) accept(log *slog.Logger, next *Overrides) {
	told := words.Join(next.Warnings, "\n", Problem.String)
	r.mu.Lock()
	before, news := r.status, told != r.told
	changed := !slices.EqualFunc(r.all, next.All, override.Override.Equal)
	r.status = Status{At: time.Now(), Generation: before.Generation, OK: true}
	if changed {
		r.status.Generation++
	}
	r.all, r.told = next.All, told
	r.mu.Unlock()

	if changed {
		r.Apply(slices.Clone(next.All))
	}
	if news {
		for _, w := range next.Warnings {
			log.Warn("overrides file", "problem", w.String())
		}
	}
	switch {
	case changed:
		log.Info("overrides file in force", "overrides", len(next.All), "ids", ids(next.All))
	case !before.OK:
		log.Info("overrides in force are those of the file again", "overrides", len(next.All))
	}
}

func ids(all []override.Override) string {
	return words.Join(all, ",", func(o override.Override) string { return o.ID })
}
