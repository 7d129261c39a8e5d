package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
)

// devPicture is how wide the picture of dev is: as a README shows it.
const devPicture = 850

// A devTimeline draws what happens while dev runs. nil draws nothing.
type devTimeline struct {
	file string
	sees *observatory
}

// openTimeline begins to look at all locks, if a picture is wanted.
func (p *program) openTimeline(ctx context.Context, d *devFlags) (*devTimeline, error) {
	if d.timeline == "" {
		return nil, nil
	}
	sees, err := openObservatory(ctx, &config.Config{Client: d.client}, p.quiet())
	if err != nil {
		return nil, err
	}
	return &devTimeline{d.timeline, sees}, nil
}

// write draws the lock where most has happened, and says so.
func (t *devTimeline) write(p *program) error {
	if t == nil {
		return nil
	}
	line, ok := t.best()
	if !ok {
		return fmt.Errorf("--timeline: no lock was requested, there is nothing to draw in %s; let it run for longer", t.file)
	}
	var out bytes.Buffer
	if err := picture.TimelineSVG(&out, line, picture.Options{Width: devPicture, Standalone: true}); err != nil {
		return err
	}
	if err := replaceFile(t.file, out.Bytes()); err != nil {
		return fmt.Errorf("--timeline: %s cannot be written: %w", t.file, withoutPath(err))
	}
	_, _ = fmt.Fprintf(p.stdout,
		"  What happened to the lock %s is drawn in %s\n\n", printable(line.Scope), printable(t.file))
	return nil
}

// observe hears what the jobs' guards do: how a hold has ended, ZooKeeper does not
// always tell.
func (t *devTimeline) observe(ctx context.Context, e lockguard.Event) {
	if t != nil {
		t.sees.board.Observe(ctx, e)
	}
}

func (t *devTimeline) end() {
	if t != nil {
		t.sees.end()
	}
}

// best returns what happened to the lock that is the most worth to be seen: the
// one with most preemptions, then with most requests.
func (t *devTimeline) best() (best live.Timeline, ok bool) {
	worth := -1
	for _, lock := range t.sees.board.Now().Locks {
		line := t.sees.board.Timeline(lock.Scope, time.Time{}, time.Time{})
		asked := 0
		for _, m := range line.Marks {
			if m.Kind != live.MarkHandover {
				asked++
			}
		}
		if n := 1000*asked + len(line.Rows); len(line.Rows) > 0 && n > worth {
			best, worth = line, n
		}
	}
	return best, worth >= 0
}

// replaceFile writes a file whole, or not at all.
func replaceFile(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it is gone when all went well
	_, err = file.Write(text)
	if failure := file.Close(); err == nil {
		err = failure
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	return err
}
