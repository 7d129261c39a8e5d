package robust

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// Options say what a run does. Only Dir and Worker must be set.
type Options struct {
	Clients int // processes; default 10
	Players int // goroutines that take locks, in each of them; default 3
	Scopes  int // locks at a time; default 4
	Readers int // percentage of requests that are shared; default 30
	// percentage of requests that no other outranks, with a long lease: their holds last; default 0
	Calm     int
	Dir      string        // an empty directory for histories and resources
	Duration time.Duration // of the faults; default 1m
	Season   time.Duration // how long the names of locks last; default 15s
	Seed     uint64
	Session  time.Duration // the session timeout that clients ask for; default 3s
	// how long before the end of a session its holds end: Config.Margin of the clients; default Session/12
	Margin time.Duration
	Tempo  float64       // by how much processes are slower than on an idle laptop; default 1
	Tick   time.Duration // of the servers; default 500ms: as many to a session, nearly, as by default in production
	Worker string        // the program of the clients, see Build

	Kinds []nemesis.Kind // of faults; default: all that can be made here
	Lanes int            // faults at a time; default 1
	Rest  time.Duration  // mean pause between two; default 1s

	// Steps, when set, are the faults: these and no others, within Duration.
	Steps []nemesis.Step

	// Drain is for how long calls may go on after all faults have been healed.
	// Default 45s, which is a few times what it takes: requests list again by
	// themselves once a minute, and that must not hide a missing notification.
	Drain time.Duration

	// Peek, when set, is how often the history so far is judged; a violation
	// ends the run.
	Peek time.Duration

	// Evidence is the directory for what shows violations, created if there are
	// any. Default: it is not kept.
	Evidence string

	// Log, when set, gets a line for each thing that happens.
	Log func(format string, args ...any)
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	count := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	count(&o.Clients, 10)
	count(&o.Players, 3)
	count(&o.Scopes, 4)
	count(&o.Readers, 30)
	set(&o.Duration, time.Minute)
	set(&o.Season, 15*time.Second)
	set(&o.Session, 3*time.Second)
	set(&o.Margin, o.Session/12)
	set(&o.Tick, 500*time.Millisecond)
	set(&o.Drain, 45*time.Second)
	if o.Tempo == 0 {
		o.Tempo = 1
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o
}

// noise is how long a process may not run without counting as starved.
func (o Options) noise() time.Duration { return o.Margin / 3 }

// Build builds the program of the clients in dir: with the race detector, or
// with other sources laid over those of the product (a file for go build
// -overlay; "": none).
func Build(ctx context.Context, dir string, race bool, overlay string) (program string, err error) {
	program = filepath.Join(dir, "worker")
	args := []string{"build", "-o", program}
	if race {
		args = append(args, "-race")
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/lockkeeper/lockkeeper/integration/robust/worker")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("robust: build the worker: %w\n%s", err, out)
	}
	return program, nil
}
